/**
 * Numbers in the order in which they came, in one block of memory that doubles when it is full.
 */
export class GrowingArray {
  constructor(capacity = 64) {
    this._data = new Float64Array(capacity);
  }

  /** The numbers; only the first `length` are valid, and the array is another one after growth. */
  get data(): Float64Array {
    return this._data;
  }

  get length(): number {
    return this._length;
  }

  push(value: number): void {
    if (this._length === this._data.length) {
      this.reserve(this._length + 1);
    }
    this._data[this._length++] = value;
  }

  /** Make room for `length` numbers. */
  reserve(length: number): void {
    if (length > this._data.length) {
      const grown = new Float64Array(Math.max(length, 2 * this._data.length));
      grown.set(this._data.subarray(0, this._length));
      this._data = grown;
    }
  }

  at(index: number): number {
    return this._data[index];
  }

  private _data: Float64Array;
  private _length = 0;
}

/**
 * The first index in `[from, to)` of ascending `data` whose number is `value` or more; `to` when there is none.
 */
export function lowerBound(
  data: ArrayLike<number>,
  value: number,
  from: number,
  to: number
): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (data[middle] < value) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}
