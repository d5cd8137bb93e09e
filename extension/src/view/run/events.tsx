import * as React from 'react';
import { useSession, useTrans } from './context';
import { Section } from './section';

/** Rows shown at once; the newest come first. */
const MOST_ROWS = 200;

/** What happened to the run. */
export function Events(): JSX.Element {
  const { main } = useSession();
  const trans = useTrans();
  const events = [...(main.facts?.events ?? [])].reverse();
  const notices = main.facts?.notices ?? [];
  return (
    <Section
      kind="events"
      title={trans.__('Events')}
      note={String(events.length)}
    >
      {notices.length > 0 && (
        <ul className="jp-JtrainRun-list">
          {notices.map(notice => (
            <li key={notice} className="jp-JtrainRun-reason">
              {notice}
            </li>
          ))}
        </ul>
      )}
      <ol className="jp-JtrainRun-list" reversed>
        {events.slice(0, MOST_ROWS).map(event => (
          <li key={event.number} className="jp-JtrainRun-event">
            <time dateTime={new Date(event.time * 1000).toISOString()}>
              {new Date(event.time * 1000).toLocaleString()}
            </time>
            <span>{event.kind}</span>
            <span className="jp-JtrainRun-dim">{event.reason}</span>
          </li>
        ))}
      </ol>
    </Section>
  );
}
