import { IFollowWish } from '../wire';

/** One wish per run. Of two views that have different amounts of a series, the one that has less says where to begin. */
export function merged(wishes: IFollowWish[]): IFollowWish[] {
  const found = new Map<string, IFollowWish>();
  for (const wish of wishes) {
    const other = found.get(wish.run);
    found.set(wish.run, other ? joined(other, wish) : wish);
  }
  return [...found.values()];
}

function joined(first: IFollowWish, second: IFollowWish): IFollowWish {
  const metrics =
    first.metrics && second.metrics
      ? [...new Set([...first.metrics, ...second.metrics])]
      : null;
  return {
    run: first.run,
    metrics,
    series: earliest(first.series, second.series),
    logs: earliest(first.logs, second.logs),
    samples: first.samples || second.samples
  };
}

type Cursors = IFollowWish['series'];

function earliest(first: Cursors, second: Cursors): Cursors {
  const result = { ...first };
  for (const [name, cursor] of Object.entries(second)) {
    const other = result[name];
    const isBefore =
      !other ||
      cursor.attempt < other.attempt ||
      (cursor.attempt === other.attempt && cursor.count < other.count);
    if (isBefore) {
      result[name] = cursor;
    }
  }
  return result;
}
