import * as React from 'react';
import { formatBytes } from '../model/numbers';
import { IDeviceRow } from '../wire';
import { useJtrain, useTrans } from './context';
import { Meter } from './parts/meter';
import { SHORT_PAST, Spark } from './parts/spark';

/** One device: what it does, who has it, and whether it is chosen for the next run. */
export function DeviceTile({ device }: { device: IDeviceRow }): JSX.Element {
  const { machine } = useJtrain();
  const trans = useTrans();
  const isChosen = machine.chosen.includes(device.uuid);
  const { reasons, load_percent: load } = device;
  const { memory_used_bytes: used, memory_total_bytes: total } = device;
  const past = machine.load(device.uuid);
  const none = trans.__('n/a');
  const toggle = () => void machine.toggle(device.uuid);
  return (
    <div
      className="jp-JtrainTile"
      data-device={device.uuid}
      data-lost={device.is_lost}
      data-chosen={isChosen}
    >
      <button
        type="button"
        className="jp-JtrainTile-choose"
        aria-pressed={isChosen}
        aria-label={trans.__('%1, %2', device.label, device.name)}
        title={
          isChosen
            ? trans.__('Chosen for the next run (--gpus picker)')
            : trans.__('Choose for the next run (--gpus picker)')
        }
        disabled={device.is_lost && !isChosen}
        onClick={toggle}
      >
        <span className="jp-JtrainTile-tick" aria-hidden="true" />
        <span className="jp-JtrainTile-label">{device.label}</span>
        <span className="jp-JtrainTile-name">{device.name}</span>
        {device.is_simulated && (
          <span className="jp-JtrainMark">{trans.__('simulated')}</span>
        )}
      </button>
      {device.is_lost ? (
        <p className="jp-JtrainTile-lost" role="alert">
          {trans.__('This device has stopped answering.')}{' '}
          {reasons.memory_used_bytes ?? ''}
        </p>
      ) : (
        <>
          <Meter
            label={trans.__('Load')}
            share={load === null ? null : load / 100}
            text={load === null ? none : `${Math.round(load)} %`}
            reason={reasons.load_percent}
          />
          <Meter
            label={trans.__('Memory')}
            share={used === null || !total ? null : used / total}
            text={`${used === null ? none : formatBytes(used)} / ${total ? formatBytes(total) : none}`}
            reason={reasons.memory_used_bytes ?? reasons.memory_total_bytes}
          />
          <Spark
            values={past}
            label={trans.__('Load of %1 over the last minutes', device.label)}
            low={0}
            high={100}
            span={Math.max(SHORT_PAST, past.length)}
          />
        </>
      )}
      <div className="jp-JtrainFacts">
        <Reading
          value={device.temperature_celsius}
          unit="°C"
          label={trans.__('Temperature')}
          reason={reasons.temperature_celsius}
        />
        <Reading
          value={device.power_watts}
          unit="W"
          label={trans.__('Power')}
          reason={reasons.power_watts}
        />
        <Owner device={device} />
      </div>
    </div>
  );
}

interface IReadingProps {
  value: number | null;
  unit: string;
  label: string;
  reason?: string;
}

function Reading(props: IReadingProps): JSX.Element {
  const trans = useTrans();
  const isKnown = props.value !== null;
  return (
    <span
      title={isKnown ? props.label : `${props.label}: ${props.reason ?? ''}`}
      data-known={isKnown}
    >
      {isKnown
        ? `${Math.round(props.value ?? 0)} ${props.unit}`
        : trans.__('n/a %1', props.unit)}
    </span>
  );
}

function Owner({ device }: { device: IDeviceRow }): JSX.Element {
  const jtrain = useJtrain();
  const { trans } = jtrain;
  const { owner, owner_run: run } = device;
  if (run) {
    return (
      <button
        type="button"
        className="jp-JtrainLink"
        title={trans.__('Show this run')}
        onClick={() => jtrain.openRun(run, 'panel')}
      >
        {jtrain.runs.get(run)?.name || owner || run}
      </button>
    );
  }
  return (
    <span className="jp-JtrainTile-owner" title={owner}>
      {owner || trans.__('free')}
    </span>
  );
}
