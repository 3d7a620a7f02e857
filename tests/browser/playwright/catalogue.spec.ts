// The catalogue of tests/fixtures/chat through the fixture: each page's verdict goes to a file, which
// tests/browser/test_glyphs_playwright.py compares with Python's.
import { writeFileSync } from "node:fs";
import { expect, test } from "detok-web/playwright";

const { url, pages, out } = JSON.parse(process.env.DETOK_CATALOGUE!) as {
  url: string;
  pages: { name: string; truth: string | null }[];
  out: string;
};

for (const { name, truth } of pages) {
  test(name, async ({ page, glyphWatch }) => {
    await page.goto(`${url}/${name}.html`);
    expect(await glyphWatch.settle({ quietMs: 150 })).toBe(true);
    const verdict = await glyphWatch.result({ truth: truth ?? undefined });
    writeFileSync(`${out}/${name}.json`, glyphWatch.json(verdict));
  });
}
