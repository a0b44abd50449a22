/// A program with subcommands. Generates its help, manual pages and shell completions.
package struct CommandFamily: Sendable {
  package struct Member: Sendable {
    package var name: String
    /// A brief description, starting in lower case.
    package var brief: String
    private let makeTable: @Sendable () -> OptionTable

    package var table: OptionTable { makeTable() }

    /// Creates a subcommand. Evaluates `table` on use.
    package init(_ name: String, _ brief: String, _ table: @autoclosure @escaping @Sendable () -> OptionTable) {
      self.name = name
      self.brief = brief
      makeTable = table
    }
  }

  package var name: String
  /// A brief description, starting in lower case.
  package var brief: String
  package var version: String
  package var table: OptionTable
  /// The subcommands, in the order of the help.
  package var members: [Member]

  package init(name: String, brief: String, version: String, table: OptionTable, members: [Member]) {
    self.name = name
    self.brief = brief
    self.version = version
    self.table = table
    self.members = members
  }

  /// Returns the subcommand `name`.
  ///
  /// - Throws: ``UsageError`` if it does not exist.
  package func member(_ name: String) throws(UsageError) -> Member {
    if let member = members.first(where: { $0.name == name }) { return member }
    let names = members.map(\.name)
    let near = suggestion(name, among: names)
    throw UsageError(
      "unknown command \"\(name)\"" + (near.isEmpty ? "; available: \(names.joined(separator: ", "))" : near)
    )
  }

  package func help(width: Int = 100) -> String {
    var table = table
    table.usage = ["\(name) COMMAND [OPTION]... [OPERAND]..."] + table.usage
    let column = (members.map(\.name.count).max() ?? 0) + 3
    let list = members.map { "  \(padded($0.name, column))\($0.brief)" }
    table.epilogue = (["Commands:"] + list + ["", table.epilogue]).joined(separator: "\n")
    return table.help(width: width)
  }
}
