import { assert, test } from 'vitest';
import { IDrawn, align, decimate } from '../src/model/decimation';
import { GrowingArray, lowerBound } from '../src/model/growing';
import { Pyramid } from '../src/model/pyramid';
import { MetricSeries } from '../src/model/series';
import { Smoothed } from '../src/model/smoothing';

/** Numbers that look random and are the same each time. */
function noise(count: number, seed = 1): number[] {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  });
}

function seriesOf(values: number[], stepOf = (index: number) => index) {
  const series = new MetricSeries('loss');
  const steps = values.map((_, index) => stepOf(index));
  series.append(
    steps,
    steps.map(step => 1000 + step),
    values
  );
  return series;
}

test('the pyramid finds the extremes of every stretch', () => {
  const values = noise(3000);
  values[17] = NaN;
  values[1500] = Infinity;
  const source = new GrowingArray();
  const pyramid = new Pyramid(source);
  values.forEach((value, index) => {
    source.push(value);
    if (index % 7 === 0) {
      pyramid.update();
    }
  });
  pyramid.update();
  for (const place of noise(200, 5)) {
    const from = Math.floor(place * 2900);
    const to = Math.min(3000, from + 1 + (Math.floor(place * 1e6) % 1500));
    pyramid.search(from, to);
    const finite = values.slice(from, to).filter(value => isFinite(value));
    assert.strictEqual(values[pyramid.lowest], Math.min(...finite));
    assert.strictEqual(values[pyramid.highest], Math.max(...finite));
  }
});

test('a stretch without a finite number has no extremes', () => {
  const source = new GrowingArray();
  const pyramid = new Pyramid(source);
  for (let index = 0; index < 40; index++) {
    source.push(NaN);
  }
  pyramid.update();
  pyramid.search(0, 40);
  assert.deepEqual([pyramid.lowest, pyramid.highest], [-1, -1]);
});

test('a running mean is corrected for its start and forgets exponentially', () => {
  const source = new GrowingArray();
  const smoothed = new Smoothed(source, 0.9);
  [5, 5, 5].forEach(value => source.push(value));
  smoothed.update();
  assert.ok(Math.abs(smoothed.values.at(0) - 5) < 1e-12);
  assert.ok(Math.abs(smoothed.values.at(2) - 5) < 1e-12);
  source.push(NaN);
  source.push(15);
  smoothed.update();
  assert.ok(isNaN(smoothed.values.at(3)));
  let mean = 0;
  [5, 5, 5, 15].forEach(value => (mean = mean * 0.9 + 0.1 * value));
  const expected = mean / (1 - 0.9 ** 4);
  assert.ok(Math.abs(smoothed.values.at(4) - expected) < 1e-12);
});

test('a running mean made bit by bit is the one made at once', () => {
  const values = noise(1000);
  const series = seriesOf([]);
  values.forEach((value, index) => {
    series.append([index], [index], [value]);
    if (index % 13 === 0) {
      series.curve('step', 0.7);
    }
  });
  const whole = seriesOf(values).curve('step', 0.7);
  const grown = series.curve('step', 0.7);
  assert.deepEqual(
    [...grown.y.subarray(0, 1000)],
    [...whole.y.subarray(0, 1000)]
  );
});

test('decimation keeps the extremes and stays near two points a column', () => {
  const values = noise(100_000);
  values[54_321] = 9;
  values[12_345] = -9;
  const drawn = decimate(seriesOf(values).curve('step'), 0, 99_999, 500);
  assert.ok(drawn.x.length <= 1010, `${drawn.x.length} points`);
  assert.strictEqual(Math.max(...(drawn.y as number[])), 9);
  assert.strictEqual(Math.min(...(drawn.y as number[])), -9);
  const ascending = drawn.x.every(
    (x, index) => !index || x >= drawn.x[index - 1]
  );
  assert.ok(ascending);
});

test('a moved curve keeps the points it shows', () => {
  const curve = seriesOf(noise(100_000)).curve('step');
  const before = decimate(curve, 20_000, 40_000, 200);
  const after = decimate(curve, 21_000, 41_000, 200);
  const inside = (drawn: IDrawn) =>
    drawn.x.filter(x => x >= 22_000 && x < 39_900);
  assert.deepEqual(inside(before), inside(after));
});

test('points just outside are drawn, so that the line goes on to the edge', () => {
  const drawn = decimate(seriesOf(noise(10)).curve('step'), 3.5, 6.5, 100);
  assert.deepEqual(drawn.x, [3, 4, 5, 6, 7]);
});

test('NaN interrupts the line and is marked, also in a crowd', () => {
  const few = decimate(seriesOf([1, NaN, 3]).curve('step'), 0, 2, 100);
  assert.deepEqual(few.y, [1, null, 3]);
  assert.deepEqual(few.marks, [{ x: 1, value: NaN }]);
  const values = noise(100_000);
  values[50_000] = NaN;
  values[70_000] = -Infinity;
  const many = decimate(seriesOf(values).curve('step'), 0, 99_999, 300);
  assert.deepEqual(
    many.marks.map(mark => [mark.x, mark.value]),
    [
      [50_000, NaN],
      [70_000, -Infinity]
    ]
  );
  assert.strictEqual(many.y.filter(value => value === null).length, 2);
});

test('a series of nothing but NaN is drawn as marks', () => {
  const drawn = decimate(
    seriesOf(Array(5000).fill(NaN)).curve('step'),
    0,
    4999,
    100
  );
  assert.ok(drawn.marks.length >= 100 && drawn.marks.length < 110);
  assert.ok(drawn.y.every(value => value === null));
});

test('steps that go backwards or repeat are drawn in order', () => {
  const series = seriesOf([0, 1, 2, 3, 4, 5], index => index % 3);
  const { x, y, length } = series.curve('step');
  assert.deepEqual([...x.subarray(0, length)], [0, 0, 1, 1, 2, 2]);
  assert.deepEqual([...y.subarray(0, length)], [0, 3, 1, 4, 2, 5]);
  assert.strictEqual(series.isMonotone, false);
});

test('the summary counts what came, also what the server left out', () => {
  const series = new MetricSeries('loss');
  series.append([0, 1, 2], [0, 1, 2], [2, 'NaN', '-Infinity'], 300);
  series.append([3], [3], [7]);
  assert.deepEqual(series.summary, {
    total: 301,
    last: 7,
    lowest: 2,
    highest: 7,
    numNaN: 1,
    numInfinite: 1
  });
  assert.strictEqual(series.isWhole, false);
});

test('a series that grows for days stays bounded and keeps its extremes', () => {
  const series = new MetricSeries('loss', 10_000);
  const values = noise(100_000);
  values[5] = 42;
  values[77] = NaN;
  values.forEach((value, index) => series.append([index], [index], [value]));
  assert.ok(series.length <= 10_000);
  assert.strictEqual(series.summary.total, 100_000);
  assert.strictEqual(series.summary.numNaN, 1);
  const { y, length } = series.curve('step');
  assert.strictEqual(Math.max(...y.subarray(0, length)), 42);
  assert.strictEqual(series.isWhole, false);
});

test('curves with different steps are put over one axis', () => {
  const one: IDrawn = { x: [0, 2, 2, 4], y: [1, null, 3, 4], marks: [] };
  const other: IDrawn = { x: [1, 2], y: [10, 20], marks: [] };
  assert.deepEqual(align([one, other]), [
    [0, 1, 2, 2, 4],
    [1, undefined, null, 3, 4],
    [undefined, 10, 20, undefined, undefined]
  ]);
});

test('a lower bound is the first that is not smaller', () => {
  assert.strictEqual(lowerBound([1, 3, 3, 5], 3, 0, 4), 1);
  assert.strictEqual(lowerBound([1, 3, 3, 5], 6, 0, 4), 4);
});
