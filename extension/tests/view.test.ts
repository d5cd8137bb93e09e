import { assert, test } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatShort,
  formatValue
} from '../src/model/numbers';
import { MetricSeries } from '../src/model/series';
import { MetricSource, ReadingSource, StepClock } from '../src/model/sources';
import { Range, Viewport } from '../src/model/viewport';
import { logTicks } from '../src/view/chart/options';
import { toCsv } from '../src/view/chart/download';
import { grouped } from '../src/model/groups';

function seriesOf(steps: number[], times: number[], values: number[]) {
  const series = new MetricSeries('loss');
  series.append(steps, times, values);
  return series;
}

test('values are written short and alike', () => {
  assert.strictEqual(formatValue(0.123456), '0.12346');
  assert.strictEqual(formatValue(5e-8), '5e−8');
  assert.strictEqual(formatValue(-1.23456e-7), '−1.235e−7');
  assert.strictEqual(formatValue(123.456), '123.46');
  assert.strictEqual(formatValue(0), '0');
  assert.strictEqual(formatValue(NaN), 'NaN');
  assert.strictEqual(formatValue(-Infinity), '−∞');
  assert.strictEqual(formatValue(3e10), '3e10');
  assert.strictEqual(formatShort(12_500), '12.5k');
  assert.strictEqual(formatShort(2_000_000), '2M');
  assert.strictEqual(formatCount(1234567), '1\u202f234\u202f567');
  assert.strictEqual(formatBytes(1.5 * 2 ** 30), '1.5 GiB');
  assert.strictEqual(formatDuration(59), '59 s');
  assert.strictEqual(formatDuration(3600 + 61), '1:01:01');
  assert.strictEqual(formatDuration(3 * 86400 + 3600 * 4), '3 d 04:00');
});

test('a zoom stays inside, a pan keeps the width, and all of it is no zoom', () => {
  const viewport = new Viewport((): Range => [0, 100]);
  viewport.zoom(20, 40);
  viewport.pan(-50);
  assert.deepEqual(viewport.state.range, [0, 20]);
  viewport.pan(Infinity);
  assert.deepEqual(viewport.state.range, [80, 100]);
  viewport.scale(2, 100);
  assert.deepEqual(viewport.state.range, [60, 100]);
  viewport.zoom(-5, 105);
  assert.strictEqual(viewport.state.range, null);
  viewport.zoom(20, 40);
  viewport.update({ axis: 'time' });
  assert.strictEqual(viewport.state.range, null);
  viewport.zoom(30, 30);
  assert.strictEqual(viewport.state.range, null);
});

test('a point-like range stays wide enough to be drawn', () => {
  const viewport = new Viewport((): Range => [0, 1e6]);
  viewport.zoom(500, 500 + 1e-9);
  const [from, to] = viewport.state.range ?? [0, 0];
  assert.ok(to - from >= 0.05 && from === 500);
});

test('readings stand over steps where the run was at their time', () => {
  const metric = seriesOf([0, 100, 200], [1000, 1010, 1030], [1, 2, 3]);
  const clock = new StepClock(metric, 1000);
  assert.strictEqual(clock.stepAt(5), 50);
  assert.strictEqual(clock.stepAt(20), 150);
  assert.strictEqual(clock.secondsAt(150), 20);
  assert.ok(isNaN(clock.stepAt(31)));
  const readings = seriesOf(
    [0, 0, 0, 0],
    [999, 1005, 1020, 1040],
    [9, 5, 7, 8]
  );
  const source = new ReadingSource(readings, 1000, () => clock);
  const drawn = source.draw('step', [0, 200], 500);
  assert.deepEqual(drawn.x, [50, 150]);
  assert.deepEqual(drawn.y, [5, 7]);
  assert.deepEqual(source.draw('time', [0, 30], 500).x, [-1, 5, 20, 40]);
});

test('time counts from the start of each run', () => {
  const source = new MetricSource(seriesOf([0, 1], [1000, 1060], [4, 5]), 990);
  assert.deepEqual(source.extent('time'), [10, 70]);
  assert.deepEqual(source.nearest('time', 60), { x: 70, value: 5 });
});

test('a detail stands in only where it has all that is shown', () => {
  const coarse = seriesOf([0, 100, 200], [0, 100, 200], [1, 2, 3]);
  coarse.isWhole = false;
  const source = new MetricSource(coarse, 0);
  assert.ok(source.needsDetail('step', [50, 60], 4));
  const fine = seriesOf([40, 50, 55, 60, 70], [4, 5, 5, 6, 7], [1, 2, 9, 2, 1]);
  source.detail = { series: fine, axis: 'step', ends: [40, 70] };
  assert.ok(!source.needsDetail('step', [50, 60], 4));
  assert.deepEqual(source.draw('step', [50, 60], 500, 0).y, [1, 2, 9, 2, 1]);
  assert.deepEqual(source.draw('step', [0, 200], 500, 0).y, [1, 2, 3]);
  assert.ok(source.needsDetail('time', [50, 60], 4));
  fine.isWhole = false;
  assert.ok(source.needsDetail('step', [52, 54], 4));
});

test('ticks of a log axis are powers of ten, with 2 and 5 where there is room', () => {
  assert.deepEqual(logTicks(0.09, 2.5), [0.1, 0.2, 0.5, 1, 2]);
  assert.deepEqual(
    logTicks(1e-8, 1e4),
    [1e-8, 1e-6, 0.0001, 0.01, 1, 100, 10000]
  );
  assert.deepEqual(logTicks(1.1, 1.4), [1.1, 1.4]);
});

test('metrics are grouped by what stands before the first slash', () => {
  assert.deepEqual(
    [...grouped(['loss', 'train/a/b', '/odd', 'val/a', 'train/c'])],
    [
      ['', ['loss', '/odd']],
      ['train', ['train/a/b', 'train/c']],
      ['val', ['val/a']]
    ]
  );
});

test('a CSV quotes names and is no formula', () => {
  const series = seriesOf([1], [2], [NaN]);
  const [, row] = toCsv('a"b,c', [{ run: '=1+1', series }]).split('\r\n');
  assert.strictEqual(row, `'=1+1,"a""b,c",1,2,NaN`);
});
