import js from '@eslint/js';
import hooks from 'eslint-plugin-react-hooks';
import ts from 'typescript-eslint';

export default ts.config(
  js.configs.recommended,
  ts.configs.recommended,
  hooks.configs['recommended-latest'],
  {
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none' }],
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'no-restricted-properties': [
        'error',
        {
          property: 'innerHTML',
          message: 'Text of runs is never put in as HTML.'
        },
        {
          property: 'dangerouslySetInnerHTML',
          message: 'Text of runs is never put in as HTML.'
        }
      ]
    }
  }
);
