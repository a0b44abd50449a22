import CulpritOptions
import CulpritReports

/// Prints text in the terminal's style, through a pager if possible.
struct TextOutput {
  static let options = [
    CommandOption(
      "width",
      letter: "w",
      argument: "COLUMNS",
      help: "length of a line, 40 to 1000; default: the terminal's width"
    ),
    CommandOption(
      "color",
      argument: "WHEN",
      values: .words(["auto", "always", "never"]),
      help: "use of colours; auto: on a terminal, unless NO_COLOR is set"
    ),
    CommandOption("ascii", help: "use ASCII only; default if the locale is not UTF-8"),
    CommandOption("no-pager", help: "do not pipe the output through PAGER or less"),
  ]

  static let styles = ["width", "color", "ascii"]
  /// Reasons why text options are rejected for other formats.
  static let isNoMarkdown = "requires --format=text: Markdown has a fixed form"
  static let isNoJSON = "requires --format=text: JSON has everything"

  let style: StallReport.TextStyle
  private let isPaged: Bool

  /// Creates an output. `width` applies if standard output is not a terminal.
  ///
  /// - Throws: ``UsageError`` for an invalid width.
  init(_ parsed: OptionTable.Arguments, width: Int) throws(UsageError) {
    style = StallReport.TextStyle(
      width: try parsed.number("width", in: 40...1000) ?? Terminal.width ?? width,
      isFull: parsed.has("full"),
      explains: parsed.has("explain"),
      isASCII: parsed.has("ascii") || Terminal.isASCII,
      hasColor: Terminal.hasColor(parsed.value("color"))
    )
    isPaged = !parsed.has("no-pager") && Terminal.isOutput
  }

  /// Prints `text`. The first call starts the pager, because a pager without text would show an empty screen.
  func print(_ text: String) {
    if isPaged, Terminal.isOutput { Pager.start() }
    output.print(style.isASCII ? text.inASCII : text)
  }
}
