import CulpritOptions
import CulpritReports

/// Text for people: as wide as the terminal, in its characters and colours, and in a pager where there is one.
struct TextOutput {
  /// By what it is changed.
  static let options = [
    CommandOption(
      "width",
      letter: "w",
      argument: "COLUMNS",
      help: "length of a line, 40 to 1000; default: the terminal's"
    ),
    CommandOption(
      "color",
      argument: "WHEN",
      values: .words(["auto", "always", "never"]),
      help: "when colours are used: auto is on a terminal, unless NO_COLOR is set"
    ),
    CommandOption("ascii", help: "no characters but those of ASCII, as where the locale is not one of UTF-8"),
    CommandOption("no-pager", help: "do not show the output with PAGER, or less, on a terminal"),
  ]

  /// Those of ``options`` that change what is written.
  static let styles = ["width", "color", "ascii"]
  /// Why there is no use for options of text where JSON is written.
  static let isNoJSON = "is for --format=text: JSON has all there is"

  /// How text is written.
  let style: StallReport.TextStyle
  private let isPaged: Bool

  /// What the options in `parsed` say.
  ///
  /// - Parameters:
  ///   - parsed: Options, ``options`` among them.
  ///   - width: The length of a line where there is no terminal that has one.
  /// - Throws: ``UsageError`` for a width that is none.
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

  /// Prints `text`. The first one starts the pager: until then there is nothing to be seen in it, and it would hold the screen.
  func print(_ text: String) {
    if isPaged, Terminal.isOutput { Pager.start() }
    output.print(style.isASCII ? text.inASCII : text)
  }
}
