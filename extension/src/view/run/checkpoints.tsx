import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { formatBytes, formatCount } from '../../model/numbers';
import { ICheckpointRow } from '../../wire';
import { doAction } from '../acting';
import { useSession, useTrans } from './context';
import { Section } from './section';

/** Rows shown at once; the newest come first. */
const MOST_ROWS = 50;

/** The states that the run can go on from. */
export function Checkpoints(): JSX.Element {
  const { main } = useSession();
  const trans = useTrans();
  const rows = [...(main.facts?.checkpoints ?? [])].sort(
    (one, other) => other.time - one.time
  );
  return (
    <Section
      kind="checkpoints"
      title={trans.__('Checkpoints')}
      note={String(rows.length)}
    >
      {rows.length ? (
        <ul className="jp-JtrainRun-list">
          {rows.slice(0, MOST_ROWS).map(row => (
            <Row key={row.name} row={row} />
          ))}
        </ul>
      ) : (
        <div className="jp-JtrainRun-empty">
          {trans.__('No checkpoint yet.')}
        </div>
      )}
      {rows.length > MOST_ROWS && (
        <div className="jp-JtrainRun-empty">
          {trans.__('… and %1 older ones', rows.length - MOST_ROWS)}
        </div>
      )}
    </Section>
  );
}

function Row({ row }: { row: ICheckpointRow }): JSX.Element {
  const { jtrain, main } = useSession();
  const trans = useTrans();
  const resume = async () => {
    const { button } = await showDialog({
      title: trans.__('Resume from step %1?', formatCount(row.step)),
      body: trans.__(
        '%1 goes on from %2. What it did after that step is done again.',
        main.name,
        row.name
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Resume') })
      ]
    });
    if (button.accept && main.row) {
      const wish = { action: 'resume' as const, checkpoint: row.name };
      const id = await doAction(jtrain, main.row, wish);
      if (id && id !== main.id) {
        jtrain.openRun(id, 'panel');
      }
    }
  };
  const facts = [
    new Date(row.time * 1000).toLocaleString(),
    row.size_bytes !== null && formatBytes(row.size_bytes),
    row.world_size !== null &&
      trans._n('%1 worker', '%1 workers', row.world_size)
  ];
  return (
    <li className="jp-JtrainRun-row" data-checkpoint={row.name}>
      <div className="jp-JtrainRun-rowText">
        <span title={row.name}>
          {trans.__('Step %1', formatCount(row.step))}
        </span>
        <span className="jp-JtrainRun-dim">
          {facts.filter(Boolean).join(' · ')}
        </span>
        {!row.is_sound && (
          <span className="jp-JtrainRun-bad">
            {row.problem || trans.__('Not usable')}
          </span>
        )}
      </div>
      <button
        type="button"
        className="jp-JtrainRun-button"
        data-action="resume-from"
        disabled={!row.is_sound || main.phase === 'gone'}
        aria-label={trans.__('Resume from step %1', formatCount(row.step))}
        onClick={() => void resume()}
      >
        {trans.__('Resume from here')}
      </button>
    </li>
  );
}
