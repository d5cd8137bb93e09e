import * as React from 'react';
import { meanLoad } from '../model/machine';
import { IJtrain } from '../tokens';
import { useSignal } from './run/hooks';

export interface IStatusItemProps {
  jtrain: IJtrain;
  onOpen: () => void;
}

/** Words for the status bar. The runs are followed all the time; the GPUs only while a panel shows them. */
export function StatusItem({ jtrain, onOpen }: IStatusItemProps): JSX.Element {
  const { machine, runs, stream, trans } = jtrain;
  useSignal(runs.changed, 500);
  useSignal(machine.changed, 1000);
  useSignal(stream.stateChanged);
  React.useEffect(() => {
    const watch = stream.watch({ runs: true });
    return () => watch.dispose();
  }, [stream]);
  const count = runs.numLiving;
  const load = machine.state ? meanLoad(machine.state.devices) : null;
  const parts = [
    count ? trans._n('%1 run', '%1 runs', count) : trans.__('no run'),
    load !== null && trans.__('GPU %1 %', Math.round(load))
  ];
  return (
    <button
      type="button"
      className="jp-JtrainStatus-button"
      title={trans.__('Training runs at work; click to show them')}
      data-state={stream.state}
      onClick={onOpen}
    >
      {trans.__('Training:')} {parts.filter(Boolean).join(' · ')}
    </button>
  );
}
