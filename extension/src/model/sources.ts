import { ICurve, IDrawn, decimate } from './decimation';
import { lowerBound } from './growing';
import { Axis, MetricSeries } from './series';
import { Range } from './viewport';

/** A point of a curve. `x` is in the chart's own unit. */
export interface IPoint {
  x: number;
  value: number;
}

/**
 * Something that a chart draws as one curve. `x` is steps, or seconds since the run's start.
 */
export interface ISource {
  /** What of the curve draws `range` in `columns` columns of pixels. */
  draw(axis: Axis, range: Range, columns: number, smoothing: number): IDrawn;

  /** First and last `x`; null when there is nothing. */
  extent(axis: Axis): Range | null;

  /** The point that stands nearest to `x`, as logged. */
  nearest(axis: Axis, x: number): IPoint | null;

  /** The value that came last; NaN when there is none. */
  readonly last: number;
}

function nearestIndex(curve: ICurve, x: number): number {
  const after = lowerBound(curve.x, x, 0, curve.length);
  if (after === 0) {
    return 0;
  }
  const isCloser =
    after < curve.length && curve.x[after] - x < x - curve.x[after - 1];
  return isCloser ? after : after - 1;
}

function nearestPoint(curve: ICurve, x: number): IPoint | null {
  if (curve.length === 0) {
    return null;
  }
  const index = nearestIndex(curve, x);
  return { x: curve.x[index], value: curve.y[index] };
}

/**
 * A metric of a run. Where the server left points out, a stretch that was fetched in detail stands in.
 */
export class MetricSource implements ISource {
  /** `origin` is the run's start in UTC epoch seconds. */
  constructor(
    readonly series: MetricSeries,
    readonly origin: number
  ) {}

  /** Points of a part of the series, between `ends` (of `axis`), that has more of them. */
  detail: { series: MetricSeries; axis: Axis; ends: Range } | null = null;

  draw(axis: Axis, range: Range, columns: number, smoothing: number): IDrawn {
    const [start, end] = this.extent(axis) ?? range;
    const inside: Range = [Math.max(range[0], start), Math.min(range[1], end)];
    const curve = this._series(axis, inside).curve(axis, smoothing);
    return decimate(curve, ...range, columns, this._offset(axis));
  }

  extent(axis: Axis): Range | null {
    const extent = this.series.extent(axis);
    const offset = this._offset(axis);
    return extent && [extent[0] - offset, extent[1] - offset];
  }

  nearest(axis: Axis, x: number): IPoint | null {
    const offset = this._offset(axis);
    const curve = this._series(axis, [x, x]).curve(axis);
    const point = nearestPoint(curve, x + offset);
    return point && { x: point.x - offset, value: point.value };
  }

  get last(): number {
    return this.series.summary.last;
  }

  /** Whether points of `range` were left out; a detail may hold `coarse` times as much as is shown. */
  needsDetail(axis: Axis, range: Range, coarse: number): boolean {
    const extent = this.extent(axis);
    if (this.series.isWhole || !extent) {
      return false;
    }
    const from = Math.max(range[0], extent[0]);
    const to = Math.min(range[1], extent[1]);
    const shown = this._series(axis, [from, to]);
    if (shown === this.series || !this.detail) {
      return to > from;
    }
    const [start, end] = this.detail.ends;
    return !shown.isWhole && end - start > coarse * (to - from);
  }

  private _offset(axis: Axis): number {
    return axis === 'time' ? this.origin : 0;
  }

  private _series(axis: Axis, range: Range): MetricSeries {
    const detail = this.detail;
    const isCovered =
      detail?.axis === axis &&
      detail.ends[0] <= range[0] &&
      detail.ends[1] >= range[1];
    return isCovered && detail ? detail.series : this.series;
  }
}

/**
 * Tells at which step a run was at a time, from a metric that it logged.
 */
export class StepClock {
  constructor(
    readonly series: MetricSeries,
    readonly origin: number
  ) {}

  /** The step (with fraction) at `seconds` since the run's start; NaN before the first and after the last. */
  stepAt(seconds: number): number {
    return this._map('time', 'step', seconds + this.origin);
  }

  /** Seconds since the run's start at `step`. */
  secondsAt(step: number): number {
    return this._map('step', 'time', step) - this.origin;
  }

  private _map(from: Axis, to: Axis, at: number): number {
    const { x, length } = this.series.curve(from);
    const y = to === 'step' ? this.series.steps : this.series.times;
    const after = lowerBound(x, at, 0, length);
    if (after === length || (after === 0 && x[0] > at)) {
      return NaN;
    }
    if (after === 0 || x[after] === at) {
      return y.at(after);
    }
    const part = (at - x[after - 1]) / (x[after] - x[after - 1]);
    return y.at(after - 1) + part * (y.at(after) - y.at(after - 1));
  }
}

/**
 * Readings of a device, which are known by time only; over steps they stand where the run was then.
 */
export class ReadingSource implements ISource {
  constructor(
    readonly series: MetricSeries,
    readonly origin: number,
    readonly clock: () => StepClock | null
  ) {}

  draw(axis: Axis, range: Range, columns: number): IDrawn {
    const curve = this.series.curve('time');
    if (axis === 'time') {
      return plain(decimate(curve, ...range, columns, this.origin));
    }
    const clock = this.clock();
    const extent = clock?.series.extent('step');
    if (!clock || !extent) {
      return { x: [], y: [], marks: [] };
    }
    const from = clock.secondsAt(Math.max(range[0], extent[0]));
    const to = clock.secondsAt(Math.min(range[1], extent[1]));
    return onSteps(decimate(curve, from, to, columns, this.origin), clock);
  }

  extent(axis: Axis): Range | null {
    const extent = this.series.extent('time');
    // Over steps the metrics alone say where the axis ends.
    return axis === 'step' || !extent
      ? null
      : [extent[0] - this.origin, extent[1] - this.origin];
  }

  nearest(axis: Axis, x: number): IPoint | null {
    const clock = this.clock();
    const seconds = axis === 'time' ? x : (clock?.secondsAt(x) ?? NaN);
    if (isNaN(seconds)) {
      return null;
    }
    const point = nearestPoint(
      this.series.curve('time'),
      seconds + this.origin
    );
    return point && { x, value: point.value };
  }

  get last(): number {
    return this.series.summary.last;
  }
}

/** A reading that couldn't be taken is a gap, nothing to point at. */
function plain(drawn: IDrawn): IDrawn {
  return { ...drawn, marks: [] };
}

function onSteps(drawn: IDrawn, clock: StepClock): IDrawn {
  const moved: IDrawn = { x: [], y: [], marks: [] };
  let last = -Infinity;
  drawn.x.forEach((seconds, index) => {
    const step = clock.stepAt(seconds);
    if (step >= last) {
      moved.x.push(step);
      moved.y.push(drawn.y[index]);
      last = step;
    }
  });
  return moved;
}
