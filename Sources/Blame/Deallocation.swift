import CulpritStallRecord

enum Deallocation {
  static func isFreeing(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    if isDeinitializer(symbol) { return true }
    if symbol.hasPrefix("$s") { return symbol.hasSuffix("WOh") || symbol.hasSuffix("wxx") }
    if symbol.hasPrefix("_Z") { return isCxx(frame, cxx) }
    return c.contains(symbol.drop { $0 == "_" }.prefix { $0 != "." })
  }

  /// Whether `symbol` is a written or generated deinitializer: a `deinit` (Swift's docs/ABI/Mangling.rst: fD, fd, fZ)
  /// or a destructor (Itanium C++ ABI, 5.1.4.3).
  static func isDeinitializer(_ symbol: String) -> Bool {
    if symbol.hasPrefix("$s") { return symbol.hasSuffix("fD") || symbol.hasSuffix("fd") || symbol.hasSuffix("fZ") }
    return symbol.hasPrefix("_Z") && ["D0Ev", "D1Ev", "D2Ev"].contains { symbol.hasSuffix($0) }
  }

  /// Whether the stack of `frames`, outermost first, deallocates. Other work in deinitializers does not count.
  static func isDeallocating(_ frames: some BidirectionalCollection<ResolvedFrame>) -> Bool {
    guard let innermost = frames.last, isFreeing(innermost) else { return false }
    return frames.contains { frame in
      guard let symbol = frame.rawName else { return false }
      return isDeinitializer(symbol) || whole.contains(symbol.drop { $0 == "_" }.prefix { $0 != "." })
        || (symbol.hasPrefix("_Z") && isCxx(frame, cxxWhole))
    }
  }

  static func isInDeinitializer(_ frames: [WeightedStack.Frame]) -> Bool {
    frames.last.map { isDeinitializer($0.resolved.rawName ?? "") } ?? false
  }

  /// Whether deinitializers on `stacks` have more self time than deallocation by runtime and allocator.
  static func deinitializersCompute(_ stacks: [WeightedStack]) -> Bool {
    var (own, freeing) = (Duration.zero, Duration.zero)
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

  private static func isCxx(_ frame: ResolvedFrame, _ names: Set<Substring>) -> Bool {
    guard let path = FunctionPath(frame) else { return false }
    if path.name.hasPrefix("operator delete") { return names.contains("delete") }
    guard let outermost = path.types.first, ["std", "__gnu_cxx", "swift"].contains(outermost) else { return false }
    return names.contains(path.name[...]) || path.types.contains { names.contains($0[...]) }
  }

  /// Excludes deinitializers that only release their properties. The function that released the outermost object is to
  /// blame.
  static func skipDeinitializers(_ frames: inout [WeightedStack.Frame]) {
    var hasInner = false
    for place in frames.indices.reversed() {
      guard isFreeing(frames[place].resolved) else { return }
      if hasInner, frames[place].owner == .own, isDeinitializer(frames[place].resolved.rawName ?? "") {
        frames[place].owner = .dependency
      }
      hasInner = true
    }
  }

  private static let c = words(
    """
    free cfree libc_free int_free malloc_consolidate unlink_chunk systrim munmap swift_release swift_release_n
    swift_release_dealloc swift_bridgeObjectRelease swift_bridgeObjectRelease_n swift_unknownObjectRelease
    swift_arrayDestroy swift_deallocClassInstance swift_deallocObject swift_slowDealloc swift_deallocPartialClassInstance
    swift_weakDestroy swift_unownedRelease
    """
  )

  /// Functions that deallocate several objects, or release an object's last reference.
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
