import { TranslationBundle } from '@jupyterlab/translation';
import { formatCount, formatValue } from '../../model/numbers';
import { MetricSeries } from '../../model/series';

/** A series in words: for screen readers, and for what a line can't show. */
export function describe(
  series: MetricSeries,
  trans: TranslationBundle,
  format: (value: number) => string = formatValue
): string {
  const { total, last, lowest, highest } = series.summary;
  if (total === 0) {
    return trans.__('no values');
  }
  const parts = [trans.__('last %1', format(last))];
  if (lowest <= highest) {
    parts.push(trans.__('lowest %1', format(lowest)));
    parts.push(trans.__('highest %1', format(highest)));
  }
  parts.push(trans._n('%1 value', '%1 values', total, formatCount(total)));
  return [...parts, ...oddities([series], trans)].join(', ');
}

/** How many values of `all` aren't finite, in words; empty when all are. */
export function oddities(
  all: MetricSeries[],
  trans: TranslationBundle
): string[] {
  let numNaN = 0;
  let numInfinite = 0;
  for (const { summary } of all) {
    numNaN += summary.numNaN;
    numInfinite += summary.numInfinite;
  }
  // Of a series that was thinned out each stretch keeps one.
  const about = all.every(series => series.isWhole) ? '' : '≥ ';
  const parts: string[] = [];
  if (numNaN) {
    parts.push(trans.__('%1 NaN', about + formatCount(numNaN)));
  }
  if (numInfinite) {
    parts.push(trans.__('%1 infinite', about + formatCount(numInfinite)));
  }
  return parts;
}
