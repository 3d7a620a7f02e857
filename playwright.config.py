"""Which browsers, how they are started, and how long is too long: plain data.

Loaded by path (`runpy.run_path`), by the browser tests and by the regression kit: `import
playwright.config` would look inside the installed playwright package. Where the programs are is not
data but a search: tools/browsers.py.
"""

# What goes to `browser_type.launch` for every browser that was found. Firefox is driven over
# WebDriver BiDi, which an installed Firefox ESR speaks; Playwright's patched build is not needed.
#
# Of several --disable-features Chromium takes the last one: Playwright's own list has to be said
# again. The second half is the browser's toolbar and what its address bar opens: pages of their own
# in each window, headless or not, which take more CPU than most tests.
chromium_features_off = (
    "AimEnabled,AutoDeElevate,AvoidCorsURLLoaderRestartOnRedirect,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "BlockOriginHeaderModificationOnRedirect,DestroyProfileOnBrowserClose,DialMediaRouteProvider,GlobalMediaControls,HttpsUpgrades,"
    "LensOverlay,MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,PaintHolding,ThirdPartyStoragePartitioning,Translate,"
    "InitialWebUI,PreloadTopChromeWebUI,WebUIBackForwardButton,WebUIHomeButton,WebUILocationBar,WebUIReloadButton,WebUIToolbar,"
    "WebUIOmniboxAimPopup,WebUIOmniboxPopup"
)
browsers = {
    "chromium": {
        "args": [
            f"--disable-features={chromium_features_off}",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            # Nothing may leave the machine: a name that is not 127.0.0.1 does not resolve.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
    },
    "firefox": {
        "channel": "moz-firefox",
        "firefox_user_prefs": {
            # The same promise for Firefox: every name but localhost goes to a proxy that is not
            # there.
            "network.proxy.type": 1,
            "network.proxy.http": "127.0.0.1",
            "network.proxy.http_port": 9,
            "network.proxy.ssl": "127.0.0.1",
            "network.proxy.ssl_port": 9,
            "network.proxy.no_proxies_on": "127.0.0.1, localhost",
            "network.proxy.allow_hijacking_localhost": False,
        },
    },
}

# How long a test waits for anything, in milliseconds: a busy machine, where several pages compile
# 9.6 MB of WebAssembly at once, may take a minute.
patience = 120_000

viewport = {"width": 1280, "height": 900}
