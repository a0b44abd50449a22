/// A command that has commands, as `git` has: what is needed to tell of it all, in its help, in manual pages and to shells.
package struct CommandFamily: Sendable {
  /// One of the commands.
  package struct Member: Sendable {
    /// Its name.
    package var name: String
    /// What it is for, in some words without a capital at the beginning.
    package var brief: String
    /// Its options.
    package var table: OptionTable

    /// The command called `name`.
    package init(_ name: String, _ brief: String, _ table: OptionTable) {
      self.name = name
      self.brief = brief
      self.table = table
    }
  }

  /// The name of the program.
  package var name: String
  /// What it is for, in some words without a capital at the beginning.
  package var brief: String
  /// Its version.
  package var version: String
  /// The options that it has without a command.
  package var table: OptionTable
  /// Its commands, in the order in which they are told.
  package var members: [Member]

  /// A program and its commands.
  package init(name: String, brief: String, version: String, table: OptionTable, members: [Member]) {
    self.name = name
    self.brief = brief
    self.version = version
    self.table = table
    self.members = members
  }

  /// The command called `name`.
  ///
  /// - Throws: ``UsageError`` when there is none.
  package func member(_ name: String) throws(UsageError) -> Member {
    if let member = members.first(where: { $0.name == name }) { return member }
    let names = members.map(\.name)
    let near = suggestion(name, among: names)
    throw UsageError(
      "there is no command \"\(name)\"" + (near.isEmpty ? "; there are \(names.joined(separator: ", "))" : near)
    )
  }

  /// The help of the program itself, with its commands.
  package func help(width: Int = 100) -> String {
    var table = table
    table.usage = ["\(name) COMMAND [OPTION]... [OPERAND]..."] + table.usage
    let column = (members.map(\.name.count).max() ?? 0) + 3
    let list = members.map { "  \(padded($0.name, column))\($0.brief)" }
    table.epilogue = (["Commands:"] + list + ["", table.epilogue]).joined(separator: "\n")
    return table.help(width: width)
  }
}
