import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { formatBytes } from '../model/numbers';
import { IJtrain } from '../tokens';
import { IHostRow } from '../wire';
import { JtrainContext, useJtrain, useTrans } from './context';
import { DeviceTile } from './devicetile';
import { Meter } from './parts/meter';
import { SHORT_PAST, Spark } from './parts/spark';
import { useSignal } from './run/hooks';
import { useWatch } from './watching';

/** From this many devices on the tiles leave out what the wide ones show. */
const MANY = 9;

/** The section that shows the machine's devices, live, and lets the user choose some for the next run. */
export class DevicesView extends ReactWidget {
  constructor(private readonly _jtrain: IJtrain) {
    super();
    this.addClass('jp-JtrainDevices');
    this.node.dataset.jtrain = 'devices';
    this.title.label = _jtrain.trans.__('Devices');
  }

  protected render(): JSX.Element {
    return (
      <JtrainContext.Provider value={this._jtrain}>
        <Devices />
      </JtrainContext.Provider>
    );
  }
}

function Devices(): JSX.Element {
  const { machine, stream } = useJtrain();
  const trans = useTrans();
  useSignal(machine.changed);
  useSignal(stream.stateChanged);
  useWatch({ machine: true });
  const { state } = machine;
  if (!state) {
    return stream.state === 'missing' ? (
      <></>
    ) : (
      <p className="jp-JtrainHint" role="status">
        {trans.__('Looking at the machine …')}
      </p>
    );
  }
  const { devices } = state;
  return (
    <div data-stale={stream.state !== 'live' && !stream.isPolling}>
      {devices.some(device => device.is_simulated) && (
        <p className="jp-JtrainHint jp-mod-simulated">
          {trans.__(
            'These GPUs are simulated: there is no such hardware, and nothing can be computed on them.'
          )}
        </p>
      )}
      {devices.length > 0 ? (
        <div
          className="jp-JtrainTiles"
          data-many={devices.length >= MANY}
          role="group"
          aria-label={trans.__('Devices: choose some for the next run')}
        >
          {devices.map(device => (
            <DeviceTile key={device.uuid} device={device} />
          ))}
        </div>
      ) : (
        <NoGpu explanation={state.explanation} />
      )}
      <Choice />
      <Host host={state.host} />
    </div>
  );
}

function NoGpu({ explanation }: { explanation: string[] }): JSX.Element {
  const trans = useTrans();
  return (
    <div className="jp-JtrainHint" data-notice="no-gpu">
      <p>
        {trans.__(
          'There is no GPU here. Runs train on the CPU, with the same code.'
        )}
      </p>
      {explanation.length > 0 && (
        <details>
          <summary>{trans.__('Why?')}</summary>
          <ul>
            {explanation.map(sentence => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function Choice(): JSX.Element | null {
  const { machine } = useJtrain();
  const trans = useTrans();
  const { chosen, problem } = machine;
  return (
    <div className="jp-JtrainChoice" role="status">
      {problem && <p className="jp-mod-problem">{problem}</p>}
      {chosen.length > 0 && (
        <>
          <span>
            {trans._n('%1 device chosen', '%1 devices chosen', chosen.length)}
            {' · '}
            <code>--gpus picker</code>
          </span>
          <button
            type="button"
            className="jp-JtrainLink"
            onClick={() => void machine.choose([])}
          >
            {trans.__('Clear')}
          </button>
        </>
      )}
    </div>
  );
}

function Host({ host }: { host: IHostRow }): JSX.Element {
  const { machine } = useJtrain();
  const trans = useTrans();
  const { cpu_percent, memory_used_bytes, memory_total_bytes } = host;
  const { disk_free_bytes, reasons } = host;
  const none = trans.__('n/a');
  const isMemoryKnown = memory_used_bytes !== null && !!memory_total_bytes;
  return (
    <div className="jp-JtrainHost" data-device="host">
      <Meter
        label={trans.__('CPU')}
        share={cpu_percent === null ? null : cpu_percent / 100}
        text={cpu_percent === null ? none : `${Math.round(cpu_percent)} %`}
        reason={reasons.cpu_percent}
      />
      <Spark
        values={machine.load(null)}
        label={trans.__('Load of the CPU over the last minutes')}
        low={0}
        high={100}
        span={Math.max(SHORT_PAST, machine.load(null).length)}
      />
      <Meter
        label={trans.__('Memory')}
        share={isMemoryKnown ? memory_used_bytes / memory_total_bytes : null}
        text={
          isMemoryKnown
            ? `${formatBytes(memory_used_bytes)} / ${formatBytes(memory_total_bytes)}`
            : none
        }
        reason={reasons.memory_used_bytes ?? reasons.memory_total_bytes}
      />
      <div className="jp-JtrainFacts" title={reasons.disk_free_bytes}>
        {trans.__(
          'Disk of the runs: %1 free',
          disk_free_bytes === null ? none : formatBytes(disk_free_bytes)
        )}
      </div>
    </div>
  );
}
