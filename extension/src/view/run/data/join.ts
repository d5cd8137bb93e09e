import { MetricSeries } from '../../../model/series';
import { ICursor, IPointsRow } from '../../../wire';

/**
 * Add the points of `row` that `series` lacks, whichever of them it has already. False: points in between are
 * missing, or it can't be told which are known, so the series has to be fetched again.
 */
export function join(series: MetricSeries, row: IPointsRow): boolean {
  const own = series.cursor;
  const { after, cursor } = row;
  if (!own) {
    return false;
  }
  if (own.attempt > cursor.attempt) {
    return true;
  }
  const isSame = after.attempt === cursor.attempt;
  const count = isSame ? cursor.count - after.count : row.values.length;
  if (own.attempt === after.attempt && own.count === after.count) {
    series.append(row.steps, row.times, row.values, count);
    series.cursor = cursor;
    return true;
  }
  if (own.attempt < cursor.attempt) {
    return false;
  }
  const lacking = cursor.count - own.count;
  if (lacking <= 0) {
    return true;
  }
  // Some are known: which ones, only a row that isn't thinned out tells.
  if (!isSame || own.count < after.count || count !== row.values.length) {
    return false;
  }
  const tail = <T>(items: T[]) => items.slice(items.length - lacking);
  series.append(tail(row.steps), tail(row.times), tail(row.values));
  series.cursor = cursor;
  return true;
}

/** Whether two readers have got equally far. */
export function isSameCursor(one: ICursor | null, other: ICursor): boolean {
  return one?.attempt === other.attempt && one.count === other.count;
}
