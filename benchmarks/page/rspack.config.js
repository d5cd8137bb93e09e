// Bundles pan.ts with the extension's own bundler and chart library. `node benchmarks/page/rspack.config.js OUT` runs it.
const path = require('path');
const extension = path.resolve(__dirname, '../../extension');
const modules = path.join(extension, 'node_modules');
const builder = require.resolve('@jupyter/builder/package.json', {
  paths: [extension]
});
const { rspack } = require(
  require.resolve('@rspack/core', { paths: [path.dirname(builder), extension] })
);

const compiler = rspack({
  mode: 'production',
  entry: path.join(__dirname, 'pan.ts'),
  output: { path: path.resolve(process.argv[2]), filename: 'pan.js' },
  resolve: { extensions: ['.ts', '.js'], modules: [modules] },
  performance: false,
  module: {
    rules: [
      {
        test: /\.ts$/,
        exclude: /node_modules/,
        loader: 'builtin:swc-loader',
        type: 'javascript/auto',
        options: { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } }
      }
    ]
  }
});
compiler.run((error, stats) => {
  if (error || stats.hasErrors()) {
    console.error(error ?? stats.toString({ all: false, errors: true }));
    process.exit(1);
  }
  compiler.close(() => undefined);
});
