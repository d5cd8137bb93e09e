import { GrowingArray } from './growing';
import { Pyramid } from './pyramid';

/**
 * A running mean of a growing array that forgets exponentially, corrected for its start as TensorBoard's is: the
 * first value is the first number itself. Numbers that aren't finite stay as they are and don't count.
 */
export class Smoothed {
  /** `weight` (0 to below 1) is how much of the mean so far stays at each number. */
  constructor(source: GrowingArray, weight: number) {
    this.weight = weight;
    this._source = source;
    this.pyramid = new Pyramid(this.values);
  }

  readonly weight: number;
  readonly values = new GrowingArray();
  readonly pyramid: Pyramid;

  /** Take in the numbers that were added to the source since the last call. */
  update(): void {
    this.values.reserve(this._source.length);
    for (let index = this.values.length; index < this._source.length; index++) {
      this.values.push(this._next(this._source.at(index)));
    }
    this.pyramid.update();
  }

  private _next(value: number): number {
    if (!isFinite(value)) {
      return value;
    }
    this._mean = this._mean * this.weight + (1 - this.weight) * value;
    this._debias = this._debias * this.weight + (1 - this.weight);
    return this._mean / this._debias;
  }

  private _source: GrowingArray;
  private _mean = 0;
  private _debias = 0;
}
