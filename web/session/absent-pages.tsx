import { useCell } from "../cell.ts";
import { CopyButton } from "../controls/copy-button.tsx";
import { MessagePage } from "../controls/message-page.tsx";
import { signInPath } from "../navigation/routes.ts";
import { useServices } from "../services.tsx";

/** The same page for a team that does not exist and for one that the person does not belong to. */
export function TeamNotFoundPage({ teamId, email }: { teamId: string; email: string }) {
  // Anybody can write an address, and this is to be typed into a shell.
  const known = /^[a-z0-9-]+$/.test(teamId) ? teamId : "<team_id>";
  const command = `${useServices().command} members add ${known} ${email}`;
  return (
    <MessagePage title="Team not found">
      <p className="muted">
        There is no team <code>{teamId}</code> that you belong to. Check the address, or ask whoever runs
        Keyrun here to add you. If there is such a team, they can do it with this command:
      </p>
      <CommandFor email={email} command={command} />
      <p>
        <a className="button" href="/">
          Go to my teams
        </a>
      </p>
    </MessagePage>
  );
}

export function NoTeamPage({ email }: { email: string }) {
  const command = `${useServices().command} members add <team_id> ${email}`;
  return (
    <MessagePage title="You are not in a team yet">
      <p className="muted">
        API keys belong to teams. Ask whoever runs Keyrun here to add you to one. They can do it with this
        command:
      </p>
      <CommandFor email={email} command={command} />
    </MessagePage>
  );
}

export function PreviewOffPage({ email }: { email: string }) {
  const command = `${useServices().command} preview grant ${email}`;
  return (
    <MessagePage title="API keys">
      <p>API keys are in preview and limited to selected users.</p>
      <p className="muted">Ask whoever runs Keyrun here for access. They can give it with this command:</p>
      <CommandFor email={email} command={command} />
    </MessagePage>
  );
}

/** The command, once the e-mail in it is known: the list may fail before the session is read. */
function CommandFor({ email, command }: { email: string; command: string }) {
  if (email === "") return null;
  return (
    <div className="command">
      <code>{command}</code>
      <CopyButton text={command} what="Command" />
    </div>
  );
}

export function UnknownPage() {
  return (
    <MessagePage title="Page not found">
      <p className="muted">There is nothing at this address.</p>
      <p>
        <a className="button" href="/">
          Go to API keys
        </a>
      </p>
    </MessagePage>
  );
}

/** In place of what a page held when the session ended elsewhere. */
export function SessionEndedNote() {
  const path = useCell(useServices().location.path);
  return (
    <MessagePage title="You were signed out">
      <p className="muted">What this page showed is hidden. Keys of your teams keep working.</p>
      <p>
        <a className="button button-primary" href={signInPath(path)}>
          Sign in
        </a>
      </p>
    </MessagePage>
  );
}
