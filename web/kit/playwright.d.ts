/** The regression kit for Playwright Test: fixtures that find broken glyphs in any chat page. */
import type {
  BrowserContext,
  Expect,
  Page,
  PlaywrightTestArgs,
  PlaywrightTestOptions,
  PlaywrightWorkerArgs,
  PlaywrightWorkerOptions,
  TestType,
} from "@playwright/test";

/** What `detok check` calls a rule; docs/testing-your-ui.md lists them. */
export type Rule = string;

/** One entry of a verdict. */
export interface Entry {
  /** Which rule it broke, or passed. */
  id: Rule;
  /** How bad it is for a reader. */
  impact: "critical" | "serious" | "moderate" | "minor" | "none";
  /** The rule in a sentence. */
  description: string;
  /** The selector of the element in its document (`url`); ` >>> ` enters a shadow root. */
  target?: string[];
  /** The text around it. */
  text?: string;
  /** Where in `text` the broken glyph is. */
  at?: number;
  /** Where it was shown: in the text, an attribute, a canvas… */
  place?: string;
  /** The address of the document. */
  url?: string;
  /** How many frames showed it. */
  frames?: number;
  /** Whether a frame with it was painted. */
  painted?: boolean;
  /** Milliseconds until it was replaced; null if it stayed. */
  cleared_ms?: number | null;
  /** The likely cause, in a sentence. */
  cause_hint?: string;
  /** What was sent, where the text differs. */
  sent?: string;
  /** What was shown instead. */
  shown?: string;
  /** How late a text was shown: the most milliseconds. */
  late_ms?: number;
  /** How many characters were late. */
  late_characters?: number;
  /** A PNG in base64, of the page or painted again from the record. */
  screenshot?: string;
  /** Whether the picture is of the page, or painted again. */
  screenshot_kind?: "page" | "redrawn";
}

/** The verdict, in the format of axe and of `detok check --json`. */
export interface Verdict {
  /** What judged: detok, and its version. */
  testEngine: Tool;
  /** The address of the page. */
  url: string;
  /** When, in the form of ISO 8601. */
  timestamp: string;
  /** Faults that a reader could see. */
  violations: Entry[];
  /** What a person has to judge. */
  incomplete: Entry[];
  /** The rules that the page keeps to. */
  passes: Entry[];
}

/** A program that judges pages. */
export interface Tool {
  /** Its name. */
  name: string;
  /** Its version. */
  version: string;
}

/** What is judged, and how strictly. */
export interface CleanOptions {
  /** Judge only what is inside elements that match this CSS selector; one must match. */
  within?: string;
  /** Leave out what is inside elements that match. */
  exclude?: string;
  /** Rules to leave out. */
  ignore?: Rule[];
  /** A text whose U+FFFD may be shown; true: each U+FFFD that stays is the model's own. */
  allowLiteral?: boolean | string;
  /** Fail also on a glyph that came and went without being painted. */
  strict?: boolean;
  /** Fail if text is shown so many milliseconds after it arrived; needs the fixture `chaos`. */
  maxLate?: number;
  /** Fail also on Markdown syntax that was shown before it was rendered. */
  markdown?: boolean;
  /** Take a picture of each finding (default: true). */
  screenshots?: boolean;
}

/** What a verdict is made of. */
export interface ResultOptions extends Omit<CleanOptions, "strict"> {
  /** What the model sent: finds what was dropped, doubled or put in another order. */
  truth?: string;
  /** The engine's answers, as a proxy read them. */
  sent?: string[];
  /** How often the page must show the text (default: 1). */
  times?: number;
  /** Look for characters that no font has (default: true). */
  tofu?: boolean;
}

/** Every broken glyph that the pages of a context have shown, however briefly. */
export class GlyphWatch {
  /** The watch of a context, outside a test; create it before the page is opened. */
  static of(context: BrowserContext, options?: GlyphOptions): Promise<GlyphWatch>;
  /** Whether a method has judged the pages. */
  readonly asked: boolean;
  /** Wait until no page has changed for `quietMs` (800); false after `timeoutMs` (30,000). */
  settle(options?: { quietMs?: number; timeoutMs?: number; leastMs?: number }): Promise<boolean>;
  /**
   * Fail if a broken glyph was shown; the message has each fault and its likely cause. Warn if the
   * page did not see every cut of the fixture `chaos`. Fails if no answer passed `chaos.url()`.
   */
  expectClean(options?: CleanOptions): Promise<Verdict>;
  /** Fail unless the page shows this text whole, once and in its order, or if there is none. */
  expectText(trueText: string | undefined, options?: { within?: string }): Promise<void>;
  /** Every finding as the page recorded it, oldest first. */
  findings(options?: { include?: string; exclude?: string }): Promise<Record<string, unknown>[]>;
  /** The text as a reader sees it, one line a block, shadow roots and fields included. */
  text(options?: { within?: string }): Promise<string>;
  /** The verdict, without failing. */
  result(options?: ResultOptions): Promise<Verdict>;
  /** The verdict as the page of `detok check --html`. */
  html(result: Verdict): string;
  /** The verdict as the file of `detok check --json`. */
  json(result: Verdict): string;
  /** Forget the findings of closed documents. */
  clear(): void;
  /** Take the times when text arrived from this proxy. */
  follow(chaos: ChaosProxy): void;
}

/** A proxy that cuts streams; `url()` starts it. */
export class ChaosProxy {
  /** The address at which the proxy serves `address`: `page.goto(await chaos.url(origin))`. */
  url(address: string): Promise<string>;
  /** The proxy's own address: before `upstream`, or without one as a browser's HTTP proxy. */
  listen(upstream?: string, port?: number): Promise<string>;
  /** The text of all streams so far; undefined if none could be read. */
  readonly sentText: string | undefined;
  /** End the proxy. */
  close(): Promise<void>;
}

/** The option `glyphs` of playwright.config.ts. */
export interface GlyphOptions {
  /** What a broken glyph does to its test (default: "error"); "off" watches nothing. */
  mode?: "error" | "warn" | "off";
  /** Watch every test that opens a page, also one without the fixture. */
  everyTest?: boolean;
  /** How a test is judged that calls no expectation. */
  expect?: CleanOptions;
}

/** The option `chaosOptions` of playwright.config.ts. */
export interface ChaosOptions {
  /** Where to cut: "every-byte" (default), "token", "random:SEED" or "none". */
  split?: "every-byte" | "token" | "none" | `random:${number}`;
  /** Milliseconds to wait after each cut that can break a careless reader (default: 3). */
  delay?: number;
  /** Cut only the streams whose address matches this regular expression (of Python). */
  only?: string;
  /** Cut a WebSocket's messages into fragments (default), or into messages. */
  websocket?: "fragments" | "messages";
}

/** The fixtures and options that a test has beside Playwright's own. */
export interface GlyphFixtures {
  /** What the test's pages show. */
  glyphWatch: GlyphWatch;
  /** A proxy that cuts streams. */
  chaos: ChaosProxy;
  /** How pages are watched. */
  glyphs: GlyphOptions;
  /** How streams are cut. */
  chaosOptions: ChaosOptions;
}

/** Playwright's `test`, with these fixtures. */
export const test: TestType<
  PlaywrightTestArgs & PlaywrightTestOptions & GlyphFixtures,
  PlaywrightWorkerArgs & PlaywrightWorkerOptions
>;

/** What a matcher gives to Playwright. */
export interface MatcherResult {
  /** Whether the page is as expected. */
  pass: boolean;
  /** What the page shows instead. */
  message(): string;
}

/** Playwright's `expect`, with two matchers for pages. */
export const expect: Expect<{
  /** No U+FFFD and no half of a pair was shown, not even for one frame. */
  toShowNoBrokenGlyph(page: Page, options?: CleanOptions): Promise<MatcherResult>;
  /** The page shows this text whole, once and in its order. */
  toShowText(
    page: Page,
    text: string | undefined,
    options?: { within?: string },
  ): Promise<MatcherResult>;
}>;
