import CulpritStallRecord

/// Functions that free what is no longer used: the runtime's, the allocator's, and what runs for each thing that is freed.
enum Deallocation {
  /// Whether the function of `frame` frees something, or leads to that.
  static func isFreeing(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    if isDeinitializer(symbol) { return true }
    if symbol.hasPrefix("$s") { return symbol.hasSuffix("WOh") || symbol.hasSuffix("wxx") }
    if symbol.hasPrefix("_Z") { return isCxx(frame, cxx) }
    return c.contains(symbol.drop { $0 == "_" }.prefix { $0 != "." })
  }

  /// Whether `symbol` is what runs when something is freed, and was written for its type, or made for it by the compiler: a `deinit`
  /// (docs/ABI/Mangling.rst of Swift's: fD, fd, fZ), a destructor (Itanium C++ ABI, 5.1.4.3).
  static func isDeinitializer(_ symbol: String) -> Bool {
    if symbol.hasPrefix("$s") { return symbol.hasSuffix("fD") || symbol.hasSuffix("fd") || symbol.hasSuffix("fZ") }
    return symbol.hasPrefix("_Z") && ["D0Ev", "D1Ev", "D2Ev"].contains { symbol.hasSuffix($0) }
  }

  /// Whether the stack of `frames`, outermost first, is that of something that is being freed: whatever else its deinitializers do
  /// is not.
  static func isGoingOn(_ frames: some BidirectionalCollection<ResolvedFrame>) -> Bool {
    guard let innermost = frames.last, isFreeing(innermost) else { return false }
    return frames.contains { frame in
      guard let symbol = frame.rawName else { return false }
      return isDeinitializer(symbol) || whole.contains(symbol.drop { $0 == "_" }.prefix { $0 != "." })
        || (symbol.hasPrefix("_Z") && isCxx(frame, cxxWhole))
    }
  }

  /// Whether the innermost function of `frames`, outermost first, is a deinitializer itself.
  static func isInDeinitializer(_ frames: [WeightedStack.Frame]) -> Bool {
    frames.last.map { isDeinitializer($0.resolved.rawName ?? "") } ?? false
  }

  /// Whether the deinitializers on `stacks` compute: they have more self time than the runtime and the allocator have for freeing. A
  /// deinitializer that only frees has hardly any.
  static func deinitializersCompute(_ stacks: [WeightedStack]) -> Bool {
    var (own, freeing) = (Duration.zero, Duration.zero)
    // Looking at names takes longer than all the rest.
    var known: [FunctionIdentity: Bool] = [:]
    for stack in stacks {
      guard let innermost = stack.frames.last else { continue }
      let frees = known[innermost.identity] ?? isFreeing(innermost.resolved)
      known[innermost.identity] = frees
      guard frees else { continue }
      if isInDeinitializer(stack.frames) { own += stack.time } else { freeing += stack.time }
    }
    return own > freeing
  }

  /// Whether `frame` is of one of the C++ library's, or of the Swift runtime's, functions called `names`.
  private static func isCxx(_ frame: ResolvedFrame, _ names: Set<Substring>) -> Bool {
    guard let path = FunctionPath(frame) else { return false }
    if path.name.hasPrefix("operator delete") { return names.contains("delete") }
    guard let outermost = path.types.first, ["std", "__gnu_cxx", "swift"].contains(outermost) else { return false }
    return names.contains(path.name[...]) || path.types.contains { names.contains($0[...]) }
  }

  /// Takes the blame from deinitializers that only free what they have: it is for who let go of all of it.
  static func passOver(_ frames: inout [WeightedStack.Frame]) {
    var hasInner = false
    for place in frames.indices.reversed() {
      guard isFreeing(frames[place].resolved) else { return }
      if hasInner, frames[place].owner == .own, isDeinitializer(frames[place].resolved.rawName ?? "") {
        frames[place].owner = .dependency
      }
      hasInner = true
    }
  }

  private static func words(_ text: String) -> Set<Substring> { Set(text.split { $0 == " " || $0 == "\n" }) }

  /// Without underscores, and without what a copy of a function ends in.
  private static let c = words(
    """
    free cfree libc_free int_free malloc_consolidate unlink_chunk systrim munmap swift_release swift_release_n
    swift_release_dealloc swift_bridgeObjectRelease swift_bridgeObjectRelease_n swift_unknownObjectRelease
    swift_arrayDestroy swift_deallocClassInstance swift_deallocObject swift_slowDealloc swift_deallocPartialClassInstance
    swift_weakDestroy swift_unownedRelease
    """
  )

  /// Those of them that free more than one thing, or the last reference to it.
  private static let whole = words(
    "malloc_consolidate munmap systrim swift_release_dealloc swift_arrayDestroy swift_deallocClassInstance"
  )

  private static let cxx = words(
    """
    doDecrement doDecrementSlow doDecrementNonAtomic _M_erase _M_clear _M_drop_node deallocate destroy _Destroy delete
    default_delete _M_dispose _M_destroy _M_release
    """
  )
  private static let cxxWhole = words("_M_erase _M_clear _Destroy")
}
