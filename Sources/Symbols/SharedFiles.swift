import CulpritStallRecord

/// The files of modules, shared by several symbolizers. Each file is opened and read once, because recordings of one
/// service have equal modules.
package final class SharedFiles {
  enum State {
    case opened(SymbolFile)
    case unusable(MissingNameReason)
  }

  private struct Place: Hashable {
    var path: String
    var buildID: [UInt8]
  }

  /// The state of each file. With a build ID, copies at all paths have equal code, so the path is empty. For an
  /// unusable file, the reason depends on the path.
  private var states: [Place: State] = [:]
  private var order: [Place] = []
  private let filesMax: Int
  private let memoryMax: Int

  /// Keeps at most `filesMax` files open, with about `memoryMax` bytes of data read from them. Beyond either limit, the
  /// least recently used files are dropped.
  package init(filesMax: Int = 256, memoryMax: Int = 1 << 30) {
    self.filesMax = filesMax
    self.memoryMax = memoryMax
  }

  var openCount: Int { order.count }

  package var byteCount: Int { sizes.reduce(0, +) }

  private var sizes: [Int] { order.map { if case .opened(let file) = states[$0] { file.byteCount } else { 0 } } }

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
