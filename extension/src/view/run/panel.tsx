import * as React from 'react';
import { Checkpoints } from './checkpoints';
import { useSession, useTrans } from './context';
import { Controls } from './controls';
import { DeviceCharts } from './devicecharts';
import { Events } from './events';
import { Header } from './header';
import { useSignal } from './hooks';
import { Logs } from './logview';
import { Metrics } from './metrics';
import { Notice } from './notice';
import { Origins } from './origins';

/** The whole view of a run, in whatever state it is. */
export function RunPanel(): JSX.Element {
  const { main, jtrain } = useSession();
  const trans = useTrans();
  useSignal(main.changed, 100);
  useSignal(jtrain.stream.stateChanged);
  if (main.phase === 'loading') {
    return (
      <div className="jp-JtrainRun-body" aria-busy="true">
        <Notice kind="loading" text={trans.__('Loading the run …')} />
      </div>
    );
  }
  if (!main.facts) {
    return (
      <div className="jp-JtrainRun-body">
        {main.phase === 'gone' ? (
          <Notice
            kind="gone"
            text={trans.__('There is no run %1 (any more).', main.id)}
          />
        ) : (
          <Notice
            kind="failed"
            text={trans.__("The run couldn't be loaded. %1", main.problem)}
            action={trans.__('Try again')}
            onAction={() => void main.refresh()}
          />
        )}
      </div>
    );
  }
  return (
    <div className="jp-JtrainRun-body">
      <Header />
      <Connection />
      <Controls />
      <Metrics />
      <DeviceCharts />
      <Logs />
      <Checkpoints />
      <Origins />
      <Events />
    </div>
  );
}

/** Says that what is seen may be old. */
function Connection(): JSX.Element | null {
  const { main, jtrain } = useSession();
  const trans = useTrans();
  if (main.phase === 'gone') {
    return (
      <Notice
        kind="gone"
        text={trans.__(
          'This run was deleted. What you see is what was known last.'
        )}
      />
    );
  }
  const { state } = jtrain.stream;
  if (state === 'lost' || state === 'missing') {
    return (
      <Notice
        kind="lost"
        text={trans.__(
          'Not connected to the server: these are the last figures. Trying again …'
        )}
      />
    );
  }
  const problem = main.problem || main.points.problem;
  return problem ? <Notice kind="failed" text={problem} /> : null;
}
