import { CopyButton } from "../controls/copy-button.tsx";

/**
 * The two settings that the snippets read, as lines for a shell. The key is typed into it and not
 * into a command, which the shell would keep in its history.
 */
export function SettingLines() {
  const lines = [
    { name: "KEYRUN_URL", text: `export KEYRUN_URL=${window.location.origin}` },
    { name: "KEYRUN_API_KEY", text: "read -rs KEYRUN_API_KEY && export KEYRUN_API_KEY" },
  ];
  return (
    <ul className="setting-lines">
      {lines.map(({ name, text }) => (
        <li key={name}>
          <code>{text}</code>
          <CopyButton text={text} what={name} />
        </li>
      ))}
    </ul>
  );
}
