import * as React from 'react';
import { grouped } from '../../model/groups';
import { useSession, useTrans } from './context';
import { useSignal } from './hooks';
import { MetricChart } from './metricchart';
import { Notice } from './notice';
import { Section } from './section';

/** From so many metrics on there is a box to find one. */
const MANY = 8;

/** Groups that stand open at first. */
const OPEN_GROUPS = 3;

/** The charts of all metrics, by group. */
export function Metrics(): JSX.Element {
  const session = useSession();
  const trans = useTrans();
  useSignal(session.runsChanged);
  useSignal(session.main.changed, 250);
  const [filter, setFilter] = React.useState('');
  const all = new Set<string>();
  for (const run of session.runs) {
    run.facts?.metrics.forEach(name => all.add(name));
  }
  const words = filter.trim().toLowerCase();
  const names = [...all].filter(name => name.toLowerCase().includes(words));
  const groups = [...grouped(names)];
  return (
    <div className="jp-JtrainRun-metrics" data-part="metrics">
      {all.size > MANY && (
        <input
          type="search"
          className="jp-JtrainRun-filter"
          data-control="metric-filter"
          placeholder={trans.__('Find one of %1 metrics', all.size)}
          aria-label={trans.__('Find a metric')}
          value={filter}
          onChange={event => setFilter(event.target.value)}
        />
      )}
      {all.size === 0 && <NoMetric />}
      {all.size > 0 && !names.length && (
        <Notice kind="empty" text={trans.__('No metric of that name.')} />
      )}
      {groups.map(([group, members], index) => (
        <Section
          // A search opens what it finds.
          key={`${group} ${words !== ''}`}
          kind="group"
          title={group || trans.__('Metrics')}
          note={members.length > 1 ? String(members.length) : undefined}
          isOpenAtFirst={index < OPEN_GROUPS || words !== ''}
        >
          <div className="jp-JtrainRun-grid">
            {members.map(name => (
              <MetricChart key={name} name={name} group={group} />
            ))}
          </div>
        </Section>
      ))}
    </div>
  );
}

function NoMetric(): JSX.Element {
  const { main } = useSession();
  const trans = useTrans();
  const isLiving = main.row?.can_stop ?? false;
  return (
    <Notice
      kind="empty"
      text={
        isLiving
          ? trans.__(
              'No metric yet. They appear here as soon as the run logs one.'
            )
          : trans.__('This run has logged no metric.')
      }
    />
  );
}
