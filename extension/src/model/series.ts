import { ICursor, Value } from '../wire';
import { ICurve } from './decimation';
import { GrowingArray } from './growing';
import { Pyramid } from './pyramid';
import { Smoothed } from './smoothing';

export type Axis = 'step' | 'time';

/** From so many points on, the older half is thinned out, so that a page left open for days stays small. */
const MOST_POINTS = 2_000_000;

/** Points of which the lowest and the highest stay when a half is thinned out. */
const THINNED = 16;

/** What a series comes down to, for people and for screen readers. */
export interface ISummary {
  /** Points that were logged, also those that the server left out. */
  total: number;
  last: number;
  lowest: number;
  highest: number;
  numNaN: number;
  numInfinite: number;
}

/**
 * The points of one metric of one run that the browser has, in the order in which they were logged.
 */
export class MetricSeries {
  constructor(name: string, mostPoints = MOST_POINTS) {
    this.name = name;
    this._mostPoints = mostPoints;
    this._clear();
  }

  readonly name: string;

  /** Where the stream goes on; null before the first answer. */
  cursor: ICursor | null = null;

  /** Whether all logged points are here; else those of each stretch that draw it. */
  isWhole = true;

  get length(): number {
    return this._values.length;
  }

  get steps(): GrowingArray {
    return this._steps;
  }

  /** UTC epoch seconds. */
  get times(): GrowingArray {
    return this._times;
  }

  get values(): GrowingArray {
    return this._values;
  }

  /** Add points that were logged after those that are here; `count` of them, when some were left out. */
  append(
    steps: ArrayLike<number>,
    times: ArrayLike<number>,
    values: ArrayLike<Value>,
    count = values.length
  ): void {
    for (let index = 0; index < values.length; index++) {
      this._push(steps[index], times[index], Number(values[index]));
    }
    this.isWhole &&= count === values.length;
    this._total += count;
    if (this.length > this._mostPoints) {
      this._thin();
    }
    this._pyramid.update();
  }

  get summary(): ISummary {
    return {
      total: this._total,
      last: this.length ? this._values.at(this.length - 1) : NaN,
      lowest: this._lowest,
      highest: this._highest,
      numNaN: this._numNaN,
      numInfinite: this._numInfinite
    };
  }

  /** The curve over `axis`, smoothed by `weight` (0: as logged). */
  curve(axis: Axis, weight = 0): ICurve {
    let values = this._values;
    let pyramid = this._pyramid;
    if (weight > 0) {
      const smoothed = this._smooth(weight);
      values = smoothed.values;
      pyramid = smoothed.pyramid;
    }
    const x = axis === 'step' ? this._steps : this._times;
    const isSorted = axis === 'step' ? this._stepsAscend : this._timesAscend;
    const curve: ICurve = {
      x: x.data,
      y: values.data,
      length: this.length,
      pyramid,
      marks: this._marks
    };
    return isSorted ? curve : this._sorted(`${axis} ${weight}`, curve);
  }

  /** Whether neither steps nor times ever went backwards. */
  get isMonotone(): boolean {
    return this._stepsAscend && this._timesAscend;
  }

  /** First and last `x` over `axis`; null when there are no points. */
  extent(axis: Axis): [number, number] | null {
    if (this.length === 0) {
      return null;
    }
    const { x, length } = this.curve(axis);
    return [x[0], x[length - 1]];
  }

  private _clear(): void {
    this._steps = new GrowingArray();
    this._times = new GrowingArray();
    this._values = new GrowingArray();
    this._marks = new GrowingArray();
    this._pyramid = new Pyramid(this._values);
    this._smoothed = null;
    this._orders.clear();
    this._numNaN = this._numInfinite = 0;
    this._stepsAscend = this._timesAscend = true;
  }

  private _push(step: number, time: number, value: number): void {
    const last = this.length - 1;
    if (last >= 0) {
      this._stepsAscend &&= step >= this._steps.at(last);
      this._timesAscend &&= time >= this._times.at(last);
    }
    this._steps.push(step);
    this._times.push(time);
    this._values.push(value);
    if (isFinite(value)) {
      this._lowest = value < this._lowest ? value : this._lowest;
      this._highest = value > this._highest ? value : this._highest;
    } else {
      this._marks.push(last + 1);
      this._numNaN += Number(isNaN(value));
      this._numInfinite += Number(!isNaN(value));
    }
  }

  private _smooth(weight: number): Smoothed {
    if (this._smoothed?.weight !== weight) {
      this._smoothed = new Smoothed(this._values, weight);
    }
    this._smoothed.update();
    return this._smoothed;
  }

  /** `curve` in the order of its `x`: a run may log steps that go backwards. */
  private _sorted(key: string, curve: ICurve): ICurve {
    const known = this._orders.get(key);
    if (known && known.length === curve.length) {
      return known;
    }
    const { x, y, length } = curve;
    const order = Array.from({ length }, (_, index) => index).sort(
      (one, other) => x[one] - x[other]
    );
    const values = new GrowingArray(length + 1);
    const marks = new GrowingArray();
    order.forEach((from, to) => {
      values.push(y[from]);
      if (!isFinite(y[from])) {
        marks.push(to);
      }
    });
    const pyramid = new Pyramid(values);
    pyramid.update();
    const sorted: ICurve = {
      x: Float64Array.from(order, from => x[from]),
      y: values.data,
      length,
      pyramid,
      marks
    };
    // One order per axis and smoothing would grow with every place of the slider.
    if (this._orders.size > 3) {
      this._orders.clear();
    }
    this._orders.set(key, sorted);
    return sorted;
  }

  /** Keep of the older half only what draws it. */
  private _thin(): void {
    const steps = this._steps;
    const times = this._times;
    const values = this._values;
    const pyramid = this._pyramid;
    pyramid.update();
    const half = (values.length >> 1) - ((values.length >> 1) % THINNED);
    const kept: number[] = [];
    for (let index = 0; index < half; index += THINNED) {
      pyramid.search(index, index + THINNED);
      const { lowest, highest } = pyramid;
      const pair =
        lowest < 0
          ? [index]
          : [Math.min(lowest, highest), Math.max(lowest, highest)];
      kept.push(...(pair[0] === pair[1] ? [pair[0]] : pair));
    }
    for (let index = half; index < values.length; index++) {
      kept.push(index);
    }
    const counts = [this._numNaN, this._numInfinite];
    this._clear();
    for (const index of kept) {
      this._push(steps.at(index), times.at(index), values.at(index));
    }
    [this._numNaN, this._numInfinite] = counts;
    this.isWhole = false;
  }

  private _mostPoints: number;
  private _steps!: GrowingArray;
  private _times!: GrowingArray;
  private _values!: GrowingArray;
  private _marks!: GrowingArray;
  private _pyramid!: Pyramid;
  private _smoothed: Smoothed | null = null;
  private _orders = new Map<string, ICurve>();
  private _stepsAscend = true;
  private _timesAscend = true;
  private _total = 0;
  private _lowest = Infinity;
  private _highest = -Infinity;
  private _numNaN = 0;
  private _numInfinite = 0;
}
