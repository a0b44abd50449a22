import CulpritStallRecord

/// The files of modules that several symbolizers look addresses up in, each opened and read once: recordings of one service have
/// the same modules, and reading a program's symbols takes a hundred times as long as naming a stack. Not safe for use from several
/// threads at once.
package final class SharedFiles {
  /// What became of a module's file.
  enum State {
    case opened(SymbolFile)
    case unusable(MissingNameReason)
  }

  private struct Place: Hashable {
    var path: String
    var buildID: [UInt8]
  }

  /// By build-id: a copy of a file at another path has the same code.
  private var opened: [[UInt8]: State] = [:]
  /// Those without a build-id, and those that are not to be had: why not depends on where they should be.
  private var others: [Place: State] = [:]

  /// No files so far.
  package init() {}

  /// What became of the file of `module`; `open` is asked where that is not known.
  func state(of module: Module, open: (Module) -> State) -> State {
    let place = Place(path: module.path, buildID: module.buildID)
    if let known = opened[module.buildID] ?? others[place] { return known }
    let state = open(module)
    if case .opened = state, !module.buildID.isEmpty { opened[module.buildID] = state } else { others[place] = state }
    return state
  }
}
