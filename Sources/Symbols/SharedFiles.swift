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

  /// What became of the file of a place, whose path is left out where it does not matter: with a build-id a copy at another path has
  /// the same code. Why a file is not to be had depends on where it should be.
  private var states: [Place: State] = [:]
  /// The places of the files that are open, the one that was used last at the end.
  private var order: [Place] = []
  private let filesMax: Int
  private let memoryMax: Int

  /// No files so far.
  ///
  /// - Parameters:
  ///   - filesMax: How many files are kept open.
  ///   - memoryMax: How much memory what was read of them may take, in bytes, about. Beyond either those that were not used for the
  ///     longest time are forgotten, and read again when they are needed.
  package init(filesMax: Int = 256, memoryMax: Int = 1 << 30) {
    self.filesMax = filesMax
    self.memoryMax = memoryMax
  }

  /// How many files are kept open.
  var openCount: Int { order.count }

  /// How much memory what was read of them takes, in bytes, about.
  package var byteCount: Int { sizes.reduce(0, +) }

  private var sizes: [Int] { order.map { if case .opened(let file) = states[$0] { file.byteCount } else { 0 } } }

  /// What became of the file of `module`; `open` is asked where that is not known.
  func state(of module: Module, open: (Module) -> State) -> State {
    let (anywhere, here) = (Place(path: "", buildID: module.buildID), Place(path: module.path, buildID: module.buildID))
    if !module.buildID.isEmpty, let known = states[anywhere] {
      noteUse(of: anywhere)
      return known
    }
    if let known = states[here] {
      noteUse(of: here)
      return known
    }
    let state = open(module)
    guard case .opened = state else {
      states[here] = state
      return state
    }
    let place = module.buildID.isEmpty ? here : anywhere
    forgetOldest()
    states[place] = state
    order.append(place)
    return state
  }

  private func noteUse(of place: Place) {
    guard order.last != place, let index = order.lastIndex(of: place) else { return }
    order.remove(at: index)
    order.append(place)
  }

  /// Makes room for another file.
  private func forgetOldest() {
    let sizes = sizes
    var total = sizes.reduce(0, +)
    var count = 0
    while count < order.count, order.count - count >= filesMax || total > memoryMax {
      states[order[count]] = nil
      total -= sizes[count]
      count += 1
    }
    order.removeFirst(count)
  }
}
