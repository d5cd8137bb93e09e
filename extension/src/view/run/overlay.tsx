import * as React from 'react';
import { IRunRow } from '../../wire';
import { useSession, useTrans } from './context';
import { useSignal } from './hooks';

/** Rows of the picker that are shown at once; the filter finds the others. */
const MOST_ROWS = 60;

/** The most runs that are laid over one another. */
const MOST_RUNS = 8;

/** Which other runs are laid over this one. */
export function Overlay(): JSX.Element {
  const session = useSession();
  const trans = useTrans();
  useSignal(session.runsChanged);
  const [isOpen, setOpen] = React.useState(false);
  const box = React.useRef<HTMLDivElement>(null);
  const numOthers = session.runs.length - 1;
  React.useEffect(() => {
    const onDown = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    document.addEventListener('pointerdown', onDown);
    return () => document.removeEventListener('pointerdown', onDown);
  }, []);
  return (
    <div
      className="jp-JtrainRun-overlay"
      ref={box}
      onKeyDown={event => {
        if (event.key === 'Escape' && isOpen) {
          setOpen(false);
          box.current?.querySelector('button')?.focus();
        }
      }}
    >
      <button
        type="button"
        className="jp-JtrainRun-button"
        data-control="compare"
        aria-expanded={isOpen}
        title={trans.__('Lay other runs over this one')}
        onClick={() => setOpen(!isOpen)}
      >
        {numOthers
          ? trans._n('Compare: %1 run', 'Compare: %1 runs', numOthers)
          : trans.__('Compare')}
      </button>
      {isOpen && <Picker />}
    </div>
  );
}

function Picker(): JSX.Element {
  const session = useSession();
  const trans = useTrans();
  const [rows, setRows] = React.useState<IRunRow[] | null>(null);
  const [problem, setProblem] = React.useState('');
  const [filter, setFilter] = React.useState('');
  React.useEffect(() => {
    session.jtrain.api.runs().then(
      answer => setRows(answer.runs.filter(row => row.id !== session.runId)),
      (error: Error) => setProblem(error.message)
    );
  }, [session]);
  const words = filter.toLowerCase();
  const found = (rows ?? []).filter(row =>
    `${row.name} ${row.id}`.toLowerCase().includes(words)
  );
  return (
    <div className="jp-JtrainRun-picker" data-part="picker">
      <input
        type="search"
        className="jp-JtrainRun-filter"
        autoFocus
        placeholder={trans.__('Find a run')}
        aria-label={trans.__('Find a run')}
        value={filter}
        onChange={event => setFilter(event.target.value)}
      />
      {problem && <div role="alert">{problem}</div>}
      {rows && !found.length && (
        <div className="jp-JtrainRun-empty">{trans.__('No other run.')}</div>
      )}
      <ul aria-label={trans.__('Other runs')}>
        {found.slice(0, MOST_ROWS).map(row => (
          <PickerRow key={row.id} row={row} />
        ))}
      </ul>
      {found.length > MOST_ROWS && (
        <div className="jp-JtrainRun-empty">
          {trans.__(
            '… and %1 more: type to find one',
            found.length - MOST_ROWS
          )}
        </div>
      )}
    </div>
  );
}

function PickerRow({ row }: { row: IRunRow }): JSX.Element {
  const session = useSession();
  const isOver = session.runs.some(run => run.id === row.id);
  return (
    <li>
      <label title={`${row.name} (${row.id})`}>
        <input
          type="checkbox"
          checked={isOver}
          disabled={!isOver && session.runs.length >= MOST_RUNS}
          data-overlay={row.id}
          onChange={() =>
            isOver ? session.remove(row.id) : session.overlay(row.id)
          }
        />
        <span className="jp-JtrainRun-pickerName">{row.name || row.id}</span>
        <span className="jp-JtrainRun-pickerState">{row.state}</span>
      </label>
    </li>
  );
}
