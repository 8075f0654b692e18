import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { failureOf } from "./api/failure.ts";
import type { GetSessionResponse } from "./api/messages.ts";
import { rpcs } from "./api/rpcs.ts";
import { useCell } from "./cell.ts";
import { StatusRegion } from "./controls/status.tsx";
import { Frame } from "./frame/frame.tsx";
import { PlainFrame } from "./frame/plain-frame.tsx";
import { KeysPage } from "./keys/keys-page.tsx";
import { KeysPlaceholder } from "./keys/keys-placeholder.tsx";
import { LazyPage } from "./lazy/lazy-page.tsx";
import { useRoute } from "./navigation/location.ts";
import { type Route, settingsPath, signInPath } from "./navigation/routes.ts";
import { useServices } from "./services.tsx";
import { SignedOutPage } from "./session/signed-out-page.tsx";
import { UnavailablePage } from "./session/unavailable-page.tsx";
import { useRpc } from "./use-rpc.ts";

/** The whole screen. `signInCode` is the code that the address held at the start, or null. */
export function App({ signInCode }: { signInCode: string | null }) {
  const { location, status } = useServices();
  const route = useRoute(location);
  if (route.page === "sign-in" || route.page === "sign-in-link") {
    return (
      <PlainFrame>
        <LazyPage>
          {({ SignInPage, SignInLinkPage }) =>
            route.page === "sign-in" ? <SignInPage /> : <SignInLinkPage code={signInCode} />
          }
        </LazyPage>
      </PlainFrame>
    );
  }
  // Also for a person who is not signed in.
  if (route.page === "unknown") {
    return (
      <PlainFrame>
        <LazyPage>{({ UnknownPage }) => <UnknownPage />}</LazyPage>
      </PlainFrame>
    );
  }
  return (
    <>
      <SignedInPages route={route} />
      <StatusRegion status={status} />
    </>
  );
}

function SignedInPages({ route }: { route: Route }) {
  const { location, sessionEnded } = useServices();
  const client = useQueryClient();
  const ended = useCell(sessionEnded);
  const [signedOut, setSignedOut] = useState(false);
  const session = useRpc(rpcs.getSession, {}, { refetchOnWindowFocus: "always" });
  const failure = session.error === null ? null : failureOf(session.error);
  const mustSignIn = !signedOut && session.data === undefined && failure?.signedOut === true;
  useEffect(() => {
    if (mustSignIn) window.location.replace(signInPath(location.path.get()));
  }, [mustSignIn, location]);

  if (signedOut) return <SignedOutPage />;
  if (mustSignIn) return null;
  const unavailable = failure !== null && session.data === undefined && (
    <UnavailablePage failure={failure} read={session} />
  );
  const teamId = "teamId" in route ? route.teamId : undefined;
  // From `/`, the screen goes on to the keys of the first team.
  const hasNoTeam = session.data !== undefined && !session.data.teams?.length;
  const isGoingOn = route.page === "home" && !unavailable && !hasNoTeam;
  return (
    <Frame
      // A tab of a person who is signed out elsewhere names neither them nor their team.
      session={ended ? undefined : session.data}
      team={session.data?.teams?.find((team) => team.id === teamId)}
      page={
        session.data && !session.data.previewAccess
          ? undefined
          : "teamId" in route
            ? route.page
            : isGoingOn
              ? "api-keys"
              : undefined
      }
      onGo={location.go}
      onSignedOut={() => {
        setSignedOut(true);
        client.clear();
      }}
    >
      <Page route={route} session={session.data} unavailable={unavailable} />
    </Frame>
  );
}

interface PageProps {
  readonly route: Route;
  readonly session: GetSessionResponse | undefined;
  /** What to show when the session could not be read; false otherwise. */
  readonly unavailable: ReactNode;
}

function Page({ route, session, unavailable }: PageProps) {
  if (route.page === "api-keys") {
    // With the key, React builds the page anew for another team, without the state of the last.
    return <KeysPage key={route.teamId} teamId={route.teamId} session={session} unavailable={unavailable} />;
  }
  if (route.page === "activity") {
    return (
      <LazyPage>
        {({ ActivityPage }) => (
          <ActivityPage
            key={route.teamId}
            teamId={route.teamId}
            session={session}
            unavailable={unavailable}
          />
        )}
      </LazyPage>
    );
  }
  if (unavailable) return unavailable;
  if (route.page === "home") return session ? <Home session={session} /> : <KeysPlaceholder />;
  return <LazyPage>{({ UnknownPage }) => <UnknownPage />}</LazyPage>;
}

/** The page at `/`, which goes on to the first team. */
function Home({ session }: { session: GetSessionResponse }) {
  const { location } = useServices();
  const first = session.teams?.[0];
  const { email = "" } = session;
  useEffect(() => {
    if (first !== undefined && session.previewAccess) location.go(settingsPath(first.id), { replace: true });
  }, [first, session.previewAccess, location]);
  if (!session.previewAccess)
    return <LazyPage>{({ PreviewOffPage }) => <PreviewOffPage email={email} />}</LazyPage>;
  return first !== undefined ? (
    <KeysPlaceholder />
  ) : (
    <LazyPage>{({ NoTeamPage }) => <NoTeamPage email={email} />}</LazyPage>
  );
}
