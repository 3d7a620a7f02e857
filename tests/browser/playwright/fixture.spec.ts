// What a user's test sees of the fixture; run by tests/browser/test_glyphs_playwright.py.
import { expect, test, GlyphWatch } from "detok-web/playwright";

const { url } = JSON.parse(process.env.DETOK_CATALOGUE!) as { url: string };
const BAD = "<main>a\ufffd</main>";
const GOOD = "<main>ä</main>";

test("passes a clean page", async ({ page, glyphWatch }) => {
  await page.setContent(GOOD);
  expect(await glyphWatch.settle({ quietMs: 100 })).toBe(true);
  const verdict = await glyphWatch.expectClean({ within: "main" });
  expect(verdict.violations).toEqual([]);
  await glyphWatch.expectText("ä");
  expect(await glyphWatch.text({ within: "main" })).toContain("ä");
  await expect(page).toShowNoBrokenGlyph();
  await expect(page).toShowText("ä");
  await expect(glyphWatch.expectClean({ maxLate: 500 })).rejects.toThrow(
    /no stream passed one; .* leave maxLate out/,
  );
  const wrong = { maxLat: 500 } as object;
  await expect(glyphWatch.expectClean(wrong)).rejects.toThrow("expectClean has no option maxLat;");
});

test("finds Markdown that flashes, if asked", async ({ page, glyphWatch }) => {
  await page.setContent("<main></main>");
  await page.evaluate(async () => {
    const main = document.querySelector("main")!;
    main.textContent = "a **bold";
    for (let n = 0; n < 3; n++) await new Promise((painted) => requestAnimationFrame(painted));
    main.innerHTML = "a <b>bold</b>";
  });
  await glyphWatch.expectClean();
  await expect(glyphWatch.expectClean({ markdown: true })).rejects.toThrow(
    /^1 piece of text was shown as Markdown syntax .*\n  markdown-flash .*: 'a \*\*bold'/,
  );
});

test("says what is broken, where and why", async ({ page, glyphWatch }) => {
  await page.setContent(`${BAD}<aside>ä</aside>`);
  await glyphWatch.expectClean({ within: "aside" });
  await glyphWatch.expectClean({ ignore: ["ufffd-persistent"] });
  await glyphWatch.expectClean({ allowLiteral: "a\ufffd" });
  await expect(glyphWatch.expectClean()).rejects.toThrow(/ufffd-persistent \(critical\) in .*main/);
  await expect(glyphWatch.expectText("Grüße")).rejects.toThrow("dropped");
  await expect(glyphWatch.expectClean({ within: "nav" })).rejects.toThrow("No element of the page");
  await expect(page).not.toShowNoBrokenGlyph();
  const found = await glyphWatch.findings({ include: "main" });
  expect(found.map(({ text }) => text)).toEqual(["a\ufffd"]);
});

test("fails by itself", async ({ page, glyphWatch }) => {
  await page.setContent(BAD);
});

test("keeps half a pair as it is", async ({ page, glyphWatch }) => {
  await page.setContent("<main>a</main>");
  await page.evaluate(() => document.querySelector("main")!.append("\ud83d"));
  const { violations } = await glyphWatch.result();
  expect(violations.map(({ id, text }) => [id, text])).toEqual([["lone-surrogate", "a\ud83d"]]);
});

test.describe("with warnings", () => {
  test.use({ glyphs: { mode: "warn" } });
  test("warns", async ({ page, glyphWatch }) => {
    await page.setContent(BAD);
    await glyphWatch.expectClean();
  });
});

test.describe("of every test", () => {
  test.use({ glyphs: { everyTest: true } });
  test("fails though it asks for no fixture", async ({ page }) => {
    await page.setContent(BAD);
  });
  test("fails if no answer passed the proxy", async ({ page, chaos }) => {
    await page.goto(await chaos.url(`${url}/wire/nothing`));
  });
});

test("is not watched", async ({ page }) => {
  await page.setContent(BAD);
});

for (const [split, websocket] of [
  ["every-byte", "fragments"],
  ["random:7", "messages"],
] as const) {
  test.describe(`cut ${split}`, () => {
    test.use({ chaosOptions: { split, websocket, delay: 0 } });
    for (const [twin, clean] of [
      ["fixed", true],
      ["faulty", false],
    ] as const) {
      test(`the ${twin} page`, async ({ page, glyphWatch, chaos }) => {
        await page.goto(await chaos.url(`${url}/01-fresh-decoder.${twin}.html?cut=9999`));
        expect(await glyphWatch.settle()).toBe(true);
        expect(chaos.sentText).toBe("Grüße 東京 👋 ไทย 龜龜 ende");
        if (clean) {
          await glyphWatch.expectClean({ maxLate: 60_000 });
          await glyphWatch.expectText(chaos.sentText);
        } else {
          await expect(glyphWatch.expectClean()).rejects.toThrow("keep one decoder");
        }
      });
    }
  });
}

for (const [name, script, said] of [
  ["that asks nothing", "", "no stream passed the proxy"],
  ["whose request fails", 'await fetch("/wire/nothing")', "/wire/nothing answered HTTP 404"],
] as const)
  test(`a page ${name} is not clean`, async ({ page, glyphWatch, chaos }) => {
    const address = await chaos.url(`${url}/silent`);
    const body = `<!doctype html><link rel=icon href=data:,><main></main><script type=module>${script}</script>`;
    await page.route(address, (route) => route.fulfill({ body, contentType: "text/html" }));
    await page.goto(address);
    await expect(glyphWatch.expectClean()).rejects.toThrow(said);
    await expect(glyphWatch.expectText(chaos.sentText)).rejects.toThrow("no text to compare");
    await glyphWatch.expectClean({ ignore: ["no-answer"] });
  });

const HOLDS = `<!doctype html><html data-state=streaming><meta charset=utf-8><link rel=icon href=data:,>
<main></main><script type=module>
const text = await (await fetch("/wire/text?pause=150")).text(); // shows nothing until the end
document.querySelector("main").append(text);
document.documentElement.dataset.state = "finished";
</script>`;

const throughProxy = test.extend({ baseURL: async ({ chaos }, use) => use(await chaos.url(url)) });

throughProxy("a context may have the proxy's address", async ({ page, glyphWatch, chaos }) => {
  await page.goto("/01-fresh-decoder.fixed.html?cut=9999");
  expect(await glyphWatch.settle()).toBe(true);
  await glyphWatch.expectText(chaos.sentText);
});

test("a matcher follows the proxy too", async ({ page, chaos }) => {
  await page.goto(await chaos.url(`${url}/wire/nothing`));
  await expect(expect(page).toShowNoBrokenGlyph()).rejects.toThrow("no stream passed the proxy");
});

test("measures what is held too long", async ({ page, glyphWatch, chaos }) => {
  const address = await chaos.url(`${url}/holds`);
  await page.route(address, (route) => route.fulfill({ body: HOLDS, contentType: "text/html" }));
  await page.goto(address);
  expect(await glyphWatch.settle()).toBe(true);
  const { violations, incomplete } = await glyphWatch.result();
  expect(violations).toEqual([]);
  const held = incomplete.filter(({ id }) => id === "held-text");
  expect(held).toHaveLength(1);
  expect(held[0]!.late_ms).toBeGreaterThan(1000);
  expect(held[0]!.late_characters).toBeGreaterThan(5);
  await expect(glyphWatch.expectClean({ maxLate: 500 })).rejects.toThrow(/held-too-long.* ms late/);
});

test("says what the browser says", async ({ page, glyphWatch }) => {
  await page.setContent(GOOD);
  await page.close();
  await expect(glyphWatch.settle()).rejects.toThrow("There is no open page to wait for");
  expect((await glyphWatch.result()).violations).toEqual([]);
});

test("can watch a context of one's own", async ({ browser }) => {
  const context = await browser.newContext();
  const watch = await GlyphWatch.of(context);
  const page = await context.newPage();
  await page.setContent(BAD);
  expect((await watch.result()).violations).toHaveLength(1);
  await context.close();
});
