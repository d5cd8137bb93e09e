import { Notification } from '@jupyterlab/apputils';
import * as React from 'react';
import { useSession, useTrans } from './context';
import { Section } from './section';

/** How the run came to be: its cell, its spec, and where it ran. */
export function Origins(): JSX.Element {
  const { facts } = useSession().main;
  const trans = useTrans();
  const source = [facts?.options, facts?.source].filter(Boolean).join('\n');
  return (
    <>
      <Section
        kind="source"
        title={trans.__('Source')}
        note={facts?.source_name}
      >
        <Text text={source} label={trans.__('Source')} />
      </Section>
      <Section kind="spec" title={trans.__('Spec')}>
        <Text text={pretty(facts?.spec)} label={trans.__('Spec')} />
      </Section>
      <Section kind="provenance" title={trans.__('Provenance')}>
        <Text text={pretty(facts?.provenance)} label={trans.__('Provenance')} />
        <div className="jp-JtrainRun-folder">
          <span>{trans.__('Folder')}</span>
          <code>{facts?.folder}</code>
        </div>
      </Section>
    </>
  );
}

function Text({ text, label }: { text: string; label: string }): JSX.Element {
  const trans = useTrans();
  const copy = () =>
    navigator.clipboard.writeText(text).catch((error: Error) => {
      Notification.error(trans.__("Couldn't copy. %1", error.message));
    });
  if (!text) {
    return (
      <div className="jp-JtrainRun-empty">{trans.__('Nothing here.')}</div>
    );
  }
  return (
    <div className="jp-JtrainRun-text">
      <button
        type="button"
        className="jp-JtrainRun-button"
        aria-label={trans.__('Copy %1', label)}
        onClick={() => void copy()}
      >
        {trans.__('Copy')}
      </button>
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

/** Nested facts as indented lines, without the marks of JSON where nothing is lost. */
function pretty(value: unknown): string {
  const isEmpty = !value || Object.keys(value).length === 0;
  return isEmpty ? '' : JSON.stringify(value, null, 2);
}
