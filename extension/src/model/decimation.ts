import { GrowingArray, lowerBound } from './growing';
import { Pyramid } from './pyramid';

/**
 * A curve that can be drawn: `y` over ascending `x`, both of which may be longer than the curve.
 */
export interface ICurve {
  x: Float64Array;
  y: Float64Array;
  length: number;
  pyramid: Pyramid;

  /** Indices of the numbers of `y` that aren't finite, ascending. */
  marks: GrowingArray;
}

/** A number that isn't finite, where it stands. */
export interface IMark {
  x: number;
  value: number;
}

/** What of a curve is drawn: null in `y` interrupts the line. */
export interface IDrawn {
  x: number[];
  y: (number | null)[];
  marks: IMark[];
}

/**
 * The points of `curve` from `from` to `to` that draw the same picture in `columns` columns of pixels: the lowest
 * and highest of each column, and the points just outside, so that lines go on to the edge.
 *
 * Columns stand at multiples of their width: a curve that is moved doesn't flicker. `offset` is taken off `x`.
 */
export function decimate(
  curve: ICurve,
  from: number,
  to: number,
  columns: number,
  offset = 0
): IDrawn {
  const drawn: IDrawn = { x: [], y: [], marks: [] };
  if (curve.length === 0) {
    return drawn;
  }
  const first = lowerBound(curve.x, from + offset, 0, curve.length);
  const end = upperBound(curve.x, to + offset, first, curve.length);
  // An interrupted edge needs no neighbour further away than one point.
  copy(curve, Math.max(0, first - 1), first, offset, drawn);
  if (end - first <= 2 * columns || !(to > from)) {
    copy(curve, first, end, offset, drawn);
  } else {
    summarise(curve, first, end, (to - from) / columns, offset, drawn);
  }
  copy(curve, end, Math.min(curve.length, end + 1), offset, drawn);
  return drawn;
}

function upperBound(
  data: Float64Array,
  value: number,
  from: number,
  to: number
): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (data[middle] <= value) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

/** Add the points `[from, to)` as they are. */
function copy(
  curve: ICurve,
  from: number,
  to: number,
  offset: number,
  drawn: IDrawn
): void {
  for (let index = from; index < to; index++) {
    add(curve, index, offset, drawn);
  }
}

function add(
  curve: ICurve,
  index: number,
  offset: number,
  drawn: IDrawn
): void {
  const x = curve.x[index] - offset;
  const y = curve.y[index];
  drawn.x.push(x);
  if (isFinite(y)) {
    drawn.y.push(y);
  } else {
    drawn.y.push(null);
    drawn.marks.push({ x, value: y });
  }
}

/** `lowerBound`, quicker when the answer is likely to lie within `reach` of `from`. */
function lowerBoundNear(
  data: Float64Array,
  value: number,
  from: number,
  to: number,
  reach: number
): number {
  const near = Math.min(to, from + reach);
  return near < to && data[near] < value
    ? lowerBound(data, value, near, to)
    : lowerBound(data, value, from, near);
}

/** Add the lowest, the highest and the first not finite point of each column of the points `[from, to)`. */
function summarise(
  curve: ICurve,
  from: number,
  to: number,
  width: number,
  offset: number,
  drawn: IDrawn
): void {
  const { x, marks, pyramid } = curve;
  let mark = lowerBound(marks.data, from, 0, marks.length);
  let size = 64;
  for (let index = from; index < to;) {
    const edge = (Math.floor((x[index] - offset) / width) + 1) * width;
    // Rounding must not stop the walk: a column holds at least the point that opens it.
    const next = lowerBoundNear(x, edge + offset, index + 1, to, 2 * size);
    size = next - index;
    pyramid.search(index, next);
    const { lowest, highest } = pyramid;
    const bad =
      mark < marks.length && marks.at(mark) < next ? marks.at(mark) : -1;
    const chosen = [lowest, highest, bad].filter(place => place >= 0);
    chosen.sort((one, other) => one - other);
    chosen.forEach((place, rank) => {
      if (place !== chosen[rank - 1]) {
        add(curve, place, offset, drawn);
      }
    });
    if (bad >= 0) {
      mark = lowerBound(marks.data, next, mark, marks.length);
    }
    index = next;
  }
}

/** Curves over one common `x`, as a chart takes them: undefined where a curve has no point, null where it stops. */
export type Aligned = [number[], ...(number | null | undefined)[][]];

/** Put several curves over one `x`. */
export function align(curves: IDrawn[]): Aligned {
  if (curves.length === 1) {
    return [curves[0].x, curves[0].y];
  }
  const places = curves.map(() => 0);
  const xs: number[] = [];
  const ys: (number | null | undefined)[][] = curves.map(() => []);
  for (;;) {
    let x = Infinity;
    curves.forEach((curve, index) => {
      if (places[index] < curve.x.length) {
        x = Math.min(x, curve.x[places[index]]);
      }
    });
    if (x === Infinity) {
      return [xs, ...ys];
    }
    xs.push(x);
    curves.forEach((curve, index) => {
      const here = curve.x[places[index]] === x;
      ys[index].push(here ? curve.y[places[index]++] : undefined);
    });
  }
}

/** Values that a log axis can show; others interrupt the line. */
export function positive(values: (number | null)[]): (number | null)[] {
  return values.map(value => (value !== null && value > 0 ? value : null));
}
