import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { filtered, NO_FILTER } from '../model/runs';
import { IJtrain } from '../tokens';
import { JtrainContext, useJtrain, useTrans } from './context';
import { RunFilter } from './runfilter';
import { RunRow } from './runrow';
import { useSignal } from './run/hooks';
import { useWatch } from './watching';

/** Height of a row in pixels; style/panel.css has the same. */
const ROW_PX = 58;
/** Rows rendered above and below those in sight. */
const MARGIN = 6;
const SPARKS_AFTER_MS = 250;

/** The section that lists the store's runs. */
export class RunsView extends ReactWidget {
  constructor(private readonly _jtrain: IJtrain) {
    super();
    this.addClass('jp-JtrainRuns');
    this.node.dataset.jtrain = 'runs';
    this.title.label = _jtrain.trans.__('Runs');
  }

  protected render(): JSX.Element {
    return (
      <JtrainContext.Provider value={this._jtrain}>
        <Runs />
      </JtrainContext.Provider>
    );
  }
}

function Runs(): JSX.Element {
  const { runs, stream } = useJtrain();
  const trans = useTrans();
  const [filter, setFilter] = React.useState(NO_FILTER);
  useSignal(runs.changed, 100);
  useSignal(stream.stateChanged);
  useWatch({ runs: true });
  if (!runs.isLoaded) {
    return stream.state === 'missing' ? (
      <></>
    ) : (
      <p className="jp-JtrainHint" role="status">
        {trans.__('Loading the runs …')}
      </p>
    );
  }
  if (!runs.rows.length) {
    return <NoRuns />;
  }
  const rows = filtered(runs.rows, filter);
  return (
    <>
      <RunFilter filter={filter} onChange={setFilter} />
      {rows.length ? (
        <RunList ids={rows.map(row => row.id)} />
      ) : (
        <p className="jp-JtrainHint" role="status">
          {trans.__('No run fits the filter.')}{' '}
          <button
            type="button"
            className="jp-JtrainLink"
            onClick={() => setFilter(NO_FILTER)}
          >
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </>
  );
}

function NoRuns(): JSX.Element {
  const trans = useTrans();
  return (
    <div className="jp-JtrainHint" data-notice="no-runs">
      <p>{trans.__('No runs yet. In a notebook, load jtrain once:')}</p>
      <pre>%load_ext jtrain</pre>
      <p>{trans.__('and put this above a cell that trains:')}</p>
      <pre>%%jtrain --nproc 2</pre>
    </div>
  );
}

/** Only the rows in sight are rendered, so that thousands of runs scroll as well as ten. */
function RunList({ ids }: { ids: readonly string[] }): JSX.Element {
  const { runs } = useJtrain();
  const trans = useTrans();
  const list = React.useRef<HTMLDivElement>(null);
  const [sight, setSight] = React.useState({ top: 0, height: 600 });
  React.useLayoutEffect(() => {
    const node = list.current;
    if (!node) {
      return;
    }
    const look = () =>
      setSight({ top: node.scrollTop, height: node.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(node);
    node.addEventListener('scroll', look, { passive: true });
    return () => {
      observer.disconnect();
      node.removeEventListener('scroll', look);
    };
  }, []);
  const first = Math.max(0, Math.floor(sight.top / ROW_PX) - MARGIN);
  const end = Math.ceil((sight.top + sight.height) / ROW_PX) + MARGIN;
  const shown = ids.slice(first, end);
  const key = shown.join();
  const age = sparkAge();
  React.useEffect(() => {
    const timer = window.setTimeout(
      () => void runs.wantSparks(key.split(',')),
      SPARKS_AFTER_MS
    );
    return () => window.clearTimeout(timer);
  }, [runs, key, age]);
  return (
    <div className="jp-JtrainRuns-list" ref={list} tabIndex={-1}>
      <ul
        aria-label={trans.__('Runs, newest first')}
        style={{ height: ids.length * ROW_PX }}
      >
        {shown.map((id, index) => (
          <RunRow
            key={id}
            id={id}
            top={(first + index) * ROW_PX}
            position={first + index + 1}
            count={ids.length}
          />
        ))}
      </ul>
    </div>
  );
}

/** Changes every ten seconds, when living runs' lines are worth asking for again. */
function sparkAge(): number {
  return Math.floor(Date.now() / 10000);
}
