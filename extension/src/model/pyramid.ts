import { GrowingArray } from './growing';

/** Numbers in a block of the lowest level. */
const BASE = 16;

/** Blocks of one level in a block of the next. */
const FACTOR = 4;

interface ILevel {
  size: number;
  lowest: GrowingArray;
  highest: GrowingArray;
}

/**
 * Where the lowest and the highest finite number of any stretch of a growing array are, found in time that hardly
 * depends on the stretch: blocks of 16, 64, 256 … numbers remember theirs.
 */
export class Pyramid {
  constructor(source: GrowingArray) {
    this._source = source;
  }

  /** Index of the lowest number that `search` found last; -1 when the stretch has no finite number. */
  lowest = -1;

  /** Index of the highest number that `search` found last; -1 when the stretch has no finite number. */
  highest = -1;

  /** Take in the numbers that were added to the source since the last call. */
  update(): void {
    for (
      let end = this._length + BASE - (this._length % BASE);
      end <= this._source.length;
      end += BASE
    ) {
      this._length = end;
      this._close(end);
    }
  }

  /** Find the extremes of the numbers `[from, to)`; the answer is in `lowest` and `highest`. */
  search(from: number, to: number): void {
    this.lowest = this.highest = -1;
    for (let index = from; index < to;) {
      let level = -1;
      let size = 1;
      let next = BASE;
      while (
        level + 1 < this._levels.length &&
        index % next === 0 &&
        index + next <= to &&
        index / next < this._levels[level + 1].lowest.length
      ) {
        level++;
        size = next;
        next *= FACTOR;
      }
      if (level < 0) {
        this._consider(index, index);
      } else {
        const { lowest, highest } = this._levels[level];
        this._consider(lowest.at(index / size), highest.at(index / size));
      }
      index += size;
    }
  }

  private _consider(low: number, high: number): void {
    const data = this._source.data;
    if (low < 0 || !isFinite(data[low])) {
      return;
    }
    if (this.lowest < 0 || data[low] < data[this.lowest]) {
      this.lowest = low;
    }
    if (this.highest < 0 || data[high] > data[this.highest]) {
      this.highest = high;
    }
  }

  /** Remember the extremes of every block that ends at `end`. */
  private _close(end: number): void {
    for (
      let size = BASE, level = 0;
      end % size === 0;
      size *= FACTOR, level++
    ) {
      this.search(end - size, end);
      if (level === this._levels.length) {
        this._levels.push({
          size,
          lowest: new GrowingArray(16),
          highest: new GrowingArray(16)
        });
      }
      this._levels[level].lowest.push(this.lowest);
      this._levels[level].highest.push(this.highest);
    }
  }

  private _source: GrowingArray;
  private _levels: ILevel[] = [];
  private _length = 0;
}
