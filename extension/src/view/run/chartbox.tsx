import { Notification } from '@jupyterlab/apputils';
import * as React from 'react';
import { MetricSource } from '../../model/sources';
import { save, toPng } from '../chart/download';
import { pressKey } from '../chart/gestures';
import { ChartPart, IChartContent } from './chartpart';
import { useSession, useTrans } from './context';
import { oddities } from './describe';

/** Height of a chart in CSS pixels. */
const HEIGHT = 170;

export interface IChartBoxProps extends IChartContent {
  title: string;
  fullTitle: string;

  /** The chart in words. */
  describe: () => string;
  saveCsv?: () => Promise<void>;
}

/** A chart with its title, its legend, and what can be done with it. */
export function ChartBox(props: IChartBoxProps): JSX.Element {
  const { viewport } = useSession();
  const { plot, legend, place, part } = useChart(props);
  const [words, odd] = useWords(props, part);
  const id = React.useId();
  return (
    <figure
      className="jp-JtrainChart"
      data-chart={props.fullTitle}
      aria-labelledby={id}
    >
      <figcaption className="jp-JtrainChart-caption">
        <span className="jp-JtrainChart-title" id={id} title={props.fullTitle}>
          {props.title}
        </span>
        {odd && <span className="jp-JtrainChart-odd">{odd}</span>}
        <span className="jp-JtrainChart-place" ref={place} />
        <Tools box={props} part={part} />
        <span className="jp-JtrainLegend" ref={legend} />
      </figcaption>
      <div
        className="jp-JtrainChart-plot"
        ref={plot}
        style={{ height: HEIGHT }}
        role="img"
        tabIndex={0}
        aria-label={`${props.fullTitle}: ${words}`}
        onKeyDown={event => {
          const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
          if (isPlain && pressKey(event.key, viewport)) {
            event.preventDefault();
          }
        }}
      />
    </figure>
  );
}

type Part = React.MutableRefObject<ChartPart | null> & {
  onWords: () => void;
};

/** Make a chart in the page, and end it with the element. */
function useChart(content: IChartContent) {
  const session = useSession();
  const plot = React.useRef<HTMLDivElement>(null);
  const legend = React.useRef<HTMLSpanElement>(null);
  const place = React.useRef<HTMLSpanElement>(null);
  const [part] = React.useState<Part>(() => ({
    current: null,
    onWords: () => undefined
  }));
  const latest = React.useRef(content);
  latest.current = content;
  React.useEffect(() => {
    if (!plot.current || !legend.current || !place.current) {
      return;
    }
    const made = new ChartPart(
      session,
      { plot: plot.current, legend: legend.current, place: place.current },
      () => latest.current,
      () => part.onWords(),
      HEIGHT
    );
    part.current = made;
    return () => {
      part.current = null;
      made.dispose();
    };
  }, [session, part]);
  return { plot, legend, place, part };
}

/** The chart in words, and how many of its values aren't finite. */
function useWords(props: IChartBoxProps, part: Part): [string, string] {
  const trans = useTrans();
  const [words, setWords] = React.useState(['', '']);
  part.onWords = () => {
    const series = (part.current?.chart.lines ?? []).flatMap(({ source }) =>
      source instanceof MetricSource ? [source.series] : []
    );
    setWords([props.describe(), oddities(series, trans).join(' · ')]);
  };
  return [words[0], words[1]];
}

function Tools(props: { box: IChartBoxProps; part: Part }): JSX.Element {
  const { box, part } = props;
  const session = useSession();
  const trans = useTrans();
  const savePng = async () => {
    if (part.current) {
      const picture = await toPng(part.current.chart, box.fullTitle);
      save(picture, `${session.main.name}-${box.fullTitle}.png`);
    }
  };
  return (
    <span className="jp-JtrainChart-tools">
      <button
        type="button"
        title={trans.__('Save this chart as a picture')}
        aria-label={trans.__('Save %1 as PNG', box.fullTitle)}
        data-export="png"
        onClick={() => void complain(savePng())}
      >
        PNG
      </button>
      {box.saveCsv && (
        <button
          type="button"
          title={trans.__('Save the points of this chart as a table')}
          aria-label={trans.__('Save %1 as CSV', box.fullTitle)}
          data-export="csv"
          onClick={() => void complain(box.saveCsv?.())}
        >
          CSV
        </button>
      )}
    </span>
  );
}

/** Tell the user what went wrong in something that nobody waits for. */
async function complain(work: Promise<void> | undefined): Promise<void> {
  try {
    await work;
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error));
  }
}
