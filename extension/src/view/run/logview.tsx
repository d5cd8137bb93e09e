import * as React from 'react';
import { LogBuffer } from '../../model/logs';
import { useSession, useTrans } from './context';
import { useSignal } from './hooks';
import { LogLine } from './logline';
import { Section } from './section';

/** Height of a line in CSS pixels; the style sheet says the same. */
const LINE = 16;

/** Lines rendered above and below those in view. */
const SPARE = 12;

/** What the workers printed. */
export function Logs(): JSX.Element {
  const trans = useTrans();
  return (
    <Section kind="logs" title={trans.__('Logs')} isOpenAtFirst>
      <LogPanel />
    </Section>
  );
}

function LogPanel(): JSX.Element {
  const { main } = useSession();
  const trans = useTrans();
  const [rank, setRank] = React.useState(0);
  const [search, setSearch] = React.useState('');
  const [hit, setHit] = React.useState(0);
  const numRanks = main.facts?.num_ranks ?? 1;
  React.useEffect(() => {
    main.logs.open(rank);
    return () => main.logs.close(rank);
  }, [main, rank]);
  useSignal(main.logs.changed, 60);
  const buffer = main.logs.buffer(rank);
  const words = search.toLowerCase();
  const hits = buffer && words ? linesWith(buffer, words) : [];
  const current = hits.length ? hits[hit % hits.length] : null;
  return (
    <div className="jp-JtrainLog" data-part="log">
      <div className="jp-JtrainLog-bar">
        {numRanks > 1 && (
          <select
            className="jp-JtrainLog-rank"
            aria-label={trans.__('Worker')}
            data-control="rank"
            value={rank}
            onChange={event => setRank(Number(event.target.value))}
          >
            {Array.from({ length: numRanks }, (_, index) => (
              <option key={index} value={index}>
                {trans.__('Rank %1', index)}
              </option>
            ))}
          </select>
        )}
        <input
          type="search"
          className="jp-JtrainRun-filter"
          data-control="log-search"
          placeholder={trans.__('Search the log')}
          aria-label={trans.__('Search the log')}
          value={search}
          onChange={event => {
            setSearch(event.target.value);
            setHit(0);
          }}
          onKeyDown={event => {
            if (event.key === 'Enter' && hits.length) {
              const move = event.shiftKey ? hits.length - 1 : 1;
              setHit((hit + move) % hits.length);
            }
          }}
        />
        {words && (
          <span className="jp-JtrainLog-hits" role="status">
            {hits.length
              ? `${(hit % hits.length) + 1} / ${hits.length}`
              : trans.__('none')}
          </span>
        )}
      </div>
      {main.logs.problem && (
        <div className="jp-JtrainRun-bad" role="alert">
          {main.logs.problem}
        </div>
      )}
      {buffer && buffer.numLines > 0 ? (
        <Lines buffer={buffer} search={words} current={current} key={rank} />
      ) : (
        <div className="jp-JtrainRun-empty">
          {buffer ? trans.__('Nothing printed yet.') : trans.__('Loading …')}
        </div>
      )}
    </div>
  );
}

function linesWith(buffer: LogBuffer, words: string): number[] {
  const found: number[] = [];
  for (let index = 0; index < buffer.numLines; index++) {
    if (buffer.text(index).toLowerCase().includes(words)) {
      found.push(index);
    }
  }
  return found;
}

interface ILinesProps {
  buffer: LogBuffer;
  search: string;
  current: number | null;
}

/** The lines in view of a log; it follows the end until somebody scrolls up. */
function Lines({ buffer, search, current }: ILinesProps): JSX.Element {
  const trans = useTrans();
  const box = React.useRef<HTMLDivElement>(null);
  const isAtEnd = React.useRef(true);
  const [top, setTop] = React.useState(0);
  const [isFollowing, setFollowing] = React.useState(true);
  const count = buffer.numLines;
  React.useLayoutEffect(() => {
    if (box.current && isAtEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  });
  React.useEffect(() => {
    if (box.current && current !== null) {
      isAtEnd.current = false;
      box.current.scrollTop = (current - 4) * LINE;
    }
  }, [current]);
  const toEnd = () => {
    isAtEnd.current = true;
    setFollowing(true);
    if (box.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  };
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } =
      box.current as HTMLDivElement;
    isAtEnd.current = scrollTop + clientHeight > scrollHeight - 2 * LINE;
    setFollowing(isAtEnd.current);
    setTop(scrollTop);
  };
  const height = box.current?.clientHeight ?? 240;
  const first = Math.max(0, Math.floor(top / LINE) - SPARE);
  const last = Math.min(count, Math.ceil((top + height) / LINE) + SPARE);
  const lines: JSX.Element[] = [];
  for (let index = first; index < last; index++) {
    lines.push(
      <LogLine
        key={index + buffer.dropped}
        number={index + buffer.dropped}
        top={index * LINE}
        spans={buffer.spans(index)}
        search={search}
        isCurrent={index === current}
      />
    );
  }
  return (
    <>
      {(buffer.isCut || buffer.dropped > 0) && (
        <div className="jp-JtrainRun-empty">
          {trans.__('Older lines are in the run’s folder.')}
        </div>
      )}
      <div
        className="jp-JtrainLog-lines"
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={trans.__('Log')}
      >
        <div style={{ height: count * LINE }}>{lines}</div>
      </div>
      {!isFollowing && (
        <button
          type="button"
          className="jp-JtrainRun-button jp-JtrainLog-end"
          data-control="log-end"
          onClick={toEnd}
        >
          {trans.__('Follow the end')}
        </button>
      )}
    </>
  );
}
