/// What every page has: its head, the tools to look into a stall, its style and its script.
enum PageShell {
  private static func file(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  private static let style = file(PackageResources.page_css)
  /// Each file has a part of one script; what they share is not to be seen from outside.
  private static let script = "(() => {\n\"use strict\";\n" + parts.map(file).joined(separator: "\n") + "})();\n"
  private static let parts = [
    PackageResources.profile_js, PackageResources.calls_js, PackageResources.words_js, PackageResources.flame_js,
    PackageResources.timeline_js, PackageResources.tables_js, PackageResources.page_js,
  ]

  /// What may be done: nothing but what this page brings along, and no connection to anywhere.
  private static let policy =
    "default-src 'none'; script-src '\(digest(script))'; style-src '\(digest(style))'; base-uri 'none'; form-action 'none'; "
    + "require-trusted-types-for 'script'"

  private static func digest(_ text: String) -> String {
    "sha256-" + String(decoding: Base64.encode(SHA256.digest(Array(text.utf8))), as: UTF8.self)
  }

  /// Up to the stalls.
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

  /// The tools: there is one set of them, and the script puts it where the stall is that is looked at.
  static let explorer = file(PackageResources.explorer_html)

  /// From the last stall on.
  static let end = "<script>\(script)</script>\n</body>\n</html>\n"
}
