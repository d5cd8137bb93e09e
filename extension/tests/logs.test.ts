import { assert, test } from 'vitest';
import { PLAIN, parseAnsi } from '../src/model/ansi';
import { LogBuffer } from '../src/model/logs';

function texts(log: LogBuffer): string[] {
  return Array.from({ length: log.numLines }, (_, index) => log.text(index));
}

function logOf(...pieces: string[]): LogBuffer {
  const log = new LogBuffer();
  pieces.forEach(piece => log.append(piece));
  return log;
}

test('colours become spans, and go on over the end of a line', () => {
  const log = logOf('a \x1b[31mred\nstill\x1b[0m plain\n');
  assert.deepEqual(
    log.spans(0).map(span => [span.text, span.style.colour]),
    [
      ['a ', null],
      ['red', 1]
    ]
  );
  assert.deepEqual(
    log.spans(1).map(span => [span.text, span.style.colour]),
    [
      ['still', 1],
      [' plain', null]
    ]
  );
});

test('all kinds of colours are known', () => {
  const colour = (codes: string) =>
    parseAnsi(`\x1b[${codes}mx`, PLAIN)[0][0].style;
  assert.strictEqual(colour('38;5;196').colour, 'rgb(255, 0, 0)');
  assert.strictEqual(colour('38;5;244').colour, 'rgb(128, 128, 128)');
  assert.strictEqual(colour('38;2;1;2;999').colour, 'rgb(1, 2, 255)');
  assert.strictEqual(colour('1;97;44').colour, 15);
  assert.strictEqual(colour('1;97;44').background, 4);
  assert.ok(colour('1;97;44').isBold);
  assert.strictEqual(colour('38;5').colour, null);
});

test('a carriage return begins the line anew, also between two pieces', () => {
  assert.deepEqual(texts(logOf('10%\r20%', '\r', '30%\n')), ['30%']);
  assert.deepEqual(texts(logOf('windows\r\n', 'next\r', '\nlast')), [
    'windows',
    'next',
    'last'
  ]);
});

test('markup is text', () => {
  const hostile = '</script><img src=x onerror=alert(1)>';
  assert.deepEqual(texts(logOf(`${hostile}\n`)), [hostile]);
});

test('other escape codes and control characters leave nothing behind', () => {
  const codes =
    '\x1b[2K\x1b[1A\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b(B\x00\x07\b!';
  assert.deepEqual(texts(logOf(codes)), ['link!']);
});

test('an escape code that is cut by the end of a piece is put together', () => {
  const log = logOf('\x1b[3');
  assert.deepEqual(texts(log), ['']);
  log.append('2mgreen');
  assert.deepEqual(
    log.spans(0).map(span => [span.text, span.style.colour]),
    [['green', 2]]
  );
});

test('a log stays bounded in lines and in the length of a line', () => {
  const log = new LogBuffer(100);
  for (let index = 0; index < 1000; index++) {
    log.append(`line ${index}\n`);
  }
  assert.ok(log.numLines <= 125);
  assert.strictEqual(log.text(log.numLines - 1), 'line 999');
  assert.strictEqual(log.dropped + log.numLines, 1000);
  const long = new LogBuffer();
  for (let index = 0; index < 100; index++) {
    long.append('x'.repeat(100_000));
  }
  assert.strictEqual(long.numLines, 1);
  assert.ok(long.text(0).length < 5000);
  assert.match(long.text(0), /\+9996000$/);
});
