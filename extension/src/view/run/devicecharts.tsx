import * as React from 'react';
import { formatBytes } from '../../model/numbers';
import { ReadingSource } from '../../model/sources';
import { ILine } from '../chart/chart';
import { ChartBox } from './chartbox';
import { useSession, useTrans } from './context';
import { IDeviceReadings } from './data/readings';
import { describe } from './describe';
import { useSignal } from './hooks';
import { Notice } from './notice';
import { Section } from './section';

/** Distances of ticks that are round amounts of memory. */
const BINARY = Array.from({ length: 30 }, (_, power) => 2 ** (power + 20));

type Kind = 'load' | 'memory';

/** Load and memory of the run's devices, under the metrics and on the same axis. */
export function DeviceCharts(): JSX.Element | null {
  const { main, viewport } = useSession();
  const trans = useTrans();
  useSignal(main.readings.changed, 1000);
  useSignal(viewport.changed);
  const devices = [...main.readings.devices.values()];
  if (!devices.length) {
    return null;
  }
  const isPlaced = viewport.state.axis === 'time' || main.clock !== null;
  const isCpu = devices.every(device => device.uuid === 'cpu');
  return (
    <Section
      kind="devices"
      title={isCpu ? trans.__('CPU') : trans.__('GPUs')}
      note={devices.length > 1 ? String(devices.length) : undefined}
      isOpenAtFirst
    >
      {!isPlaced && (
        <Notice
          kind="hint"
          text={trans.__('Readings have a step once the run has logged some.')}
          action={trans.__('Show over time')}
          onAction={() => viewport.update({ axis: 'time' })}
        />
      )}
      <div className="jp-JtrainRun-grid" hidden={!isPlaced}>
        <DeviceChart
          kind="load"
          title={trans.__('Load')}
          format={value => (isFinite(value) ? `${Math.round(value)} %` : '–')}
        />
        <DeviceChart
          kind="memory"
          title={trans.__('Memory')}
          format={formatBytes}
        />
      </div>
    </Section>
  );
}

interface IDeviceChartProps {
  kind: Kind;
  title: string;
  format: (value: number) => string;
}

function DeviceChart(props: IDeviceChartProps): JSX.Element {
  const { kind, title, format } = props;
  const { main } = useSession();
  const trans = useTrans();
  const sources = React.useRef(new Map<string, ReadingSource>());
  const source = (device: IDeviceReadings) => {
    const known = sources.current.get(device.uuid);
    if (known?.series === device[kind] && known.origin === main.origin) {
      return known;
    }
    const made = new ReadingSource(device[kind], main.origin, () => main.clock);
    sources.current.set(device.uuid, made);
    return made;
  };
  const devices = () => [...main.readings.devices.values()];
  const lines = (): ILine[] =>
    devices().map((device, index) => ({
      key: device.uuid,
      label: device.label,
      source: source(device),
      colour: index,
      isShown: true
    }));
  const text = () =>
    devices()
      .map(
        device => `${device.label}: ${describe(device[kind], trans, format)}`
      )
      .join('. ');
  const totals = devices().flatMap(device => device.memoryTotal ?? []);
  const limit = kind === 'load' ? 100 : Math.max(0, ...totals);
  return (
    <ChartBox
      title={title}
      fullTitle={title}
      lines={lines}
      describe={text}
      limits={limit ? [0, limit * 1.05] : undefined}
      format={format}
      ticks={kind === 'memory' ? BINARY : undefined}
      isPlain
    />
  );
}
