import { Notification } from '@jupyterlab/apputils';
import * as React from 'react';
import { formatDuration, formatShort } from '../../model/numbers';
import { MetricSource } from '../../model/sources';
import { Range } from '../../model/viewport';
import { Chart, ILine } from '../chart/chart';
import { save, toPng } from '../chart/download';
import { pressKey } from '../chart/gestures';
import { Legend } from '../chart/legend';
import { useSession, useTrans } from './context';
import { oddities } from './describe';

/** Height of a chart in CSS pixels. */
const HEIGHT = 170;

/** How often the text that stands for a chart is made anew, in milliseconds. */
const TEXT_PAUSE_MS = 1000;

export interface IChartBoxProps {
  title: string;
  fullTitle: string;

  /** The curves there are now. */
  lines: () => ILine[];

  /** The chart in words. */
  describe: () => string;
  saveCsv?: () => Promise<void>;
  onSeen?: (isSeen: boolean) => void;
  limits?: Range;
  format?: (value: number) => string;
  isPlain?: boolean;
}

/** A chart with its title, its legend, and what can be done with it. */
export function ChartBox(props: IChartBoxProps): JSX.Element {
  const trans = useTrans();
  const { viewport } = useSession();
  const box = useChart(props);
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
        <span className="jp-JtrainChart-odd">{box.odd}</span>
        <span className="jp-JtrainChart-place" ref={box.place} />
        <span className="jp-JtrainChart-tools">
          <button
            type="button"
            title={trans.__('Save this chart as a picture')}
            aria-label={trans.__('Save %1 as PNG', props.fullTitle)}
            data-export="png"
            onClick={() => void box.savePng()}
          >
            PNG
          </button>
          {props.saveCsv && (
            <button
              type="button"
              title={trans.__('Save the points of this chart as a table')}
              aria-label={trans.__('Save %1 as CSV', props.fullTitle)}
              data-export="csv"
              onClick={() => void complain(props.saveCsv?.())}
            >
              CSV
            </button>
          )}
        </span>
      </figcaption>
      <div className="jp-JtrainLegend" ref={box.legend} />
      <div
        className="jp-JtrainChart-plot"
        ref={box.host}
        style={{ height: HEIGHT }}
        role="img"
        tabIndex={0}
        aria-label={`${props.fullTitle}: ${box.text}`}
        title=""
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

interface IChartState {
  host: React.RefObject<HTMLDivElement>;
  legend: React.RefObject<HTMLDivElement>;
  place: React.RefObject<HTMLSpanElement>;
  text: string;
  odd: string;
  savePng: () => Promise<void>;
}

/** Keep a chart in the page up to date, past React: it changes up to 60 times a second. */
function useChart(props: IChartBoxProps): IChartState {
  const session = useSession();
  const trans = useTrans();
  const host = React.useRef<HTMLDivElement>(null);
  const legend = React.useRef<HTMLDivElement>(null);
  const place = React.useRef<HTMLSpanElement>(null);
  const chart = React.useRef<Chart | null>(null);
  const latest = React.useRef(props);
  latest.current = props;
  const [text, setText] = React.useState('');
  const [odd, setOdd] = React.useState('');
  React.useEffect(() => {
    if (!host.current || !legend.current) {
      return;
    }
    const element = host.current;
    const hidden = new Set<string>();
    const { format, limits, isPlain } = latest.current;
    const made = new Chart(element, {
      viewport: session.viewport,
      syncKey: session.syncKey,
      height: HEIGHT,
      limits,
      formatY: format,
      isPlain
    });
    chart.current = made;
    let at: number | null = null;
    const names = new Legend(legend.current, {
      formatValue: format,
      toggleTitle: label => trans.__('Show or hide %1', label),
      onToggle: key => {
        hidden.has(key) ? hidden.delete(key) : hidden.add(key);
        takeLines(true);
      }
    });
    let timer = 0;
    const describeSoon = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        setText(latest.current.describe());
        setOdd(oddText(made.lines));
      }, TEXT_PAUSE_MS);
    };
    const oddText = (lines: readonly ILine[]) =>
      [
        ...new Set(
          lines.flatMap(({ source }) =>
            source instanceof MetricSource ? oddities(source.series, trans) : []
          )
        )
      ].join(' · ');
    const takeLines = (isForced = false) => {
      const lines = latest.current
        .lines()
        .map(line => ({ ...line, isShown: !hidden.has(line.key) }));
      if (isForced || !isSame(made.lines, lines)) {
        made.setLines(lines);
        names.setLines(lines);
        names.render();
        element.parentElement?.classList.toggle('jp-mod-single', lines.length < 2);
      }
    };
    const showValues = () => {
      const { axis } = session.viewport.state;
      names.update(axis, at);
      if (place.current) {
        place.current.textContent =
          at === null
            ? ''
            : axis === 'step'
              ? trans.__('step %1', formatShort(Math.round(at)))
              : formatDuration(Math.round(at * 10) / 10);
      }
    };
    const onPoints = () => {
      takeLines();
      made.refresh();
      describeSoon();
    };
    made.cursorMoved.connect((_, x) => {
      at = x;
      showValues();
    });
    made.shownChanged.connect((_, isShown) => latest.current.onSeen?.(isShown));
    made.drawn.connect(() => {
      showValues();
      announce(element, made.lines);
    });
    session.pointsChanged.connect(onPoints);
    session.runsChanged.connect(onPoints);
    const onTheme = () => requestAnimationFrame(() => made.updateTheme());
    session.jtrain.themeChanged.connect(onTheme);
    onPoints();
    return () => {
      window.clearTimeout(timer);
      latest.current.onSeen?.(false);
      session.pointsChanged.disconnect(onPoints);
      session.runsChanged.disconnect(onPoints);
      session.jtrain.themeChanged.disconnect(onTheme);
      made.dispose();
      chart.current = null;
    };
  }, [session]);
  const savePng = () =>
    complain(
      (async () => {
        if (chart.current) {
          const picture = await toPng(chart.current, props.fullTitle);
          save(picture, `${session.main.name}-${props.fullTitle}.png`);
        }
      })()
    );
  return { host, legend, place, text, odd, savePng };
}

function isSame(some: readonly ILine[], others: readonly ILine[]): boolean {
  return (
    some.length === others.length &&
    some.every(
      (line, index) =>
        line.key === others[index].key &&
        line.label === others[index].label &&
        line.source === others[index].source
    )
  );
}

/** Say in the page how far the chart has been drawn: tests and measurements wait for it. */
function announce(element: HTMLElement, lines: readonly ILine[]): void {
  const { source } = lines[0] ?? {};
  if (source instanceof MetricSource) {
    element.dataset.points = String(source.series.summary.total);
    element.dispatchEvent(
      new CustomEvent('jtrain-drawn', {
        bubbles: true,
        detail: source.series.summary
      })
    );
  }
}

/** Tell the user what went wrong in something that nobody waits for. */
async function complain(work: Promise<void> | undefined): Promise<void> {
  try {
    await work;
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error));
  }
}
