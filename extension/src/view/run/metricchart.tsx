import * as React from 'react';
import { ILine } from '../chart/chart';
import { save, toCsv } from '../chart/download';
import { ChartBox } from './chartbox';
import { useSession, useTrans } from './context';
import { describe } from './describe';

/** Points of a series that a CSV file holds at most. */
const CSV_POINTS = 200_000;

/** The chart of one metric, of all runs that have it. */
export function MetricChart(props: {
  name: string;
  group: string;
}): JSX.Element {
  const { name, group } = props;
  const session = useSession();
  const trans = useTrans();
  const lines = (): ILine[] =>
    session.runs.flatMap(run => {
      const source = session.source(run, name);
      return source
        ? [
            {
              key: run.id,
              label: run.name,
              source,
              colour: session.colour(run),
              isShown: true
            }
          ]
        : [];
    });
  const text = () =>
    session.runs
      .map(run => {
        const series = run.points.series.get(name);
        const said = series ? describe(series, trans) : '';
        return said && session.runs.length > 1 ? `${run.name}: ${said}` : said;
      })
      .filter(said => said)
      .join('. ');
  const saveCsv = async () => {
    const columns = await Promise.all(
      session.runs
        .filter(run => run.points.series.has(name))
        .map(async run => ({
          run: run.name,
          series: await run.points.whole(name, CSV_POINTS)
        }))
    );
    save(toCsv(name, columns), `${session.main.name}-${name}.csv`);
  };
  return (
    <ChartBox
      title={group ? name.slice(group.length + 1) : name}
      fullTitle={name}
      lines={lines}
      describe={text}
      saveCsv={saveCsv}
      onSeen={isSeen => session.see(name, isSeen)}
    />
  );
}
