enum PageShell {
  private static func file(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  static let style = file(PackageResources.page_css)
  /// A function scope keeps names out of the global scope.
  static let script = "(() => {\n\"use strict\";\n" + parts.map(file).joined(separator: "\n") + "})();\n"
  private static let parts = [
    PackageResources.profile_js, PackageResources.calls_js, PackageResources.words_js, PackageResources.flame_js,
    PackageResources.timeline_js, PackageResources.tables_js, PackageResources.page_js,
  ]

  /// Digests for the policy. A test verifies them.
  static let scriptDigest = "sha256-qlwwJwHUt4AHyrVjcYUzPTvBxp8V36BATO3WvNZx8X4="
  static let styleDigest = "sha256-GGM0HMyhoxKS1I01zycQ0DiJHeJA16MhAQnnQn2HKeA="

  /// Allows only this page's script and style, and no connections.
  private static let policy =
    "default-src 'none'; script-src '\(scriptDigest)'; style-src '\(styleDigest)'; base-uri 'none'; form-action 'none'; "
    + "require-trusted-types-for 'script'"

  static func head(title: String) -> String {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="\(policy)">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="referrer" content="no-referrer">
    <title>\(Markup.text(title))</title>
    <style>\(style)</style>
    </head>
    <body>
    <a class="skip" href="#main">Skip to the answer</a>
    <header class="top">
    <h1>Culprit</h1>
    <button type="button" id="theme" hidden>Theme: automatic</button>
    </header>

    """
  }

  /// The page's only explorer. The script moves it to the selected stall.
  static let explorer = file(PackageResources.explorer_html)

  static let end = "<script>\(script)</script>\n</body>\n</html>\n"
}
