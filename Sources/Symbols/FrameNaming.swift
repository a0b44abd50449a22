import CulpritStallRecord

extension SymbolFile {
  /// Returns the frames for the code at `address`, innermost first if calls were inlined.
  ///
  /// The outermost function's name comes from the symbol table; an outlined part (`find.cold`) has the whole function's
  /// name. The names of inlined functions come from debug information. `isReturn` is whether a call ends after
  /// `address`.
  func frames(at address: FileAddress, module: String, isReturn: Bool = false) -> [ResolvedFrame] {
    let calls = calls(at: address)
    let entry = calls.last?.entry.map { FileAddress($0) } ?? address
    let symbol = symbol(at: entry, preferring: calls.last?.name) ?? symbol(at: address, preferring: calls.last?.name)
    let origin = origin(at: address)
    var outer = ResolvedFrame(function: nil, module: module, address: .file(address), origin: origin)
    if let name = symbol?.publicName ?? symbol?.name ?? calls.last?.name {
      outer.take(names.name(name))
      outer.start = symbol.map { FileAddress($0.range.start) } ?? functionStart(at: address)
      if outer.isMerged, origin == .undescribed, let start = outer.start, let module = outer.swiftModule {
        outer.origin = originOfMerged(at: start, swiftModule: module) ?? origin
      }
      outer.location = calls.last.flatMap(Self.location)
      // Some code of a function has no line.
      if outer.location == nil, let start = outer.start {
        outer.location =
          nextLocation(of: calls.count - 1, calls, from: address, symbol)
          ?? self.calls(at: start).last.flatMap(Self.location)
      }
      if outer.location == nil { outer.location = declaration(of: calls.count - 1, at: address) }
      let alike = foldedNames(symbol, origin)
      if !alike.isEmpty { outer.function = Self.joined([outer.function ?? ""] + alike) }
    } else if let stub = pltStub(at: address) {
      // A linker-generated jump to a function in another module.
      outer.function = demangle(stub).short
      outer.rawName = ".plt"
    } else {
      outer.start = functionStart(at: address)
      outer.location = calls.last.flatMap(Self.location)
      outer.missing = hasSymbols ? .noSymbolHere : .noSymbols
    }
    let inlined = calls.dropLast().enumerated()
      .map { place, call -> ResolvedFrame in
        var frame = ResolvedFrame(
          function: nil,
          module: module,
          address: .file(address),
          origin: origin,
          isInlined: true
        )
        if let name = call.name { frame.take(names.name(name)) }
        frame.location = Self.location(call)
        if frame.location == nil, !isReturn {
          frame.location =
            nextLocation(of: place, calls, from: address, symbol) ?? declaration(of: place, at: address)
        }
        if frame.function == nil { frame.missing = .noSymbolHere }
        return frame
      }
    var frames = inlined + [outer]
    if isReturn, let (name, start) = merged?.function(calledBefore: address.value &+ 1) {
      let meaning = names.name(name)
      frames[0].called = CalledFunction(
        function: meaning.meaning.short,
        fullName: meaning.meaning.full,
        rawName: meaning.raw,
        swiftModule: meaning.meaning.swiftModule,
        sourceFunction: meaning.meaning.sourceFunction,
        start: FileAddress(start)
      )
    }
    return frames
  }

  private func declaration(of number: Int, at address: FileAddress) -> SourceLocation? {
    debug?.declaration(ofCall: number, at: address.value).flatMap(Self.location)
  }

  /// Returns the location of call `number` of the `calls` at `address`. Uses the next code with a line, if its calls
  /// are equal; otherwise returns `nil`.
  private func nextLocation(
    of number: Int,
    _ calls: [SourceCall],
    from address: FileAddress,
    _ symbol: SymbolMatch?
  ) -> SourceLocation? {
    guard calls.indices.contains(number), let end = symbol?.range.end,
      let next = debug?.firstColumn(from: address.value, before: end)
    else { return nil }
    let found = self.calls(at: FileAddress(next))
    let depth = calls.count - number
    guard found.count >= depth, zip(found.suffix(depth), calls.suffix(depth)).allSatisfy({ $0.name == $1.name }) else {
      return nil
    }
    return Self.location(found[found.count - depth])
  }

  /// Returns the names of other functions with identical code that the linker has folded with `symbol` (ICF). Empty for
  /// system libraries, where aliases denote one function.
  private func foldedNames(_ symbol: SymbolMatch?, _ origin: CodeOrigin) -> [String] {
    guard let symbol, case .unit = origin else { return [] }
    let own = names.name(symbol.publicName ?? symbol.name).meaning
    // The package manager gives an entry point a second name.
    guard !own.short.hasSuffix("main") else { return [] }
    var found: [String] = []
    for name in otherNames(of: symbol) {
      let other = names.name(name).meaning
      // One function can have several symbols: constructors, and copies that differ in underscores.
      let isOther = [own.short] + found
      guard other.kind == .function, !isOther.contains(where: { Self.isAlias(other.short, of: $0) }) else { continue }
      found.append(other.short)
    }
    return found.sorted()
  }

  private static func isAlias(_ name: String, of other: String) -> Bool {
    name == other || name.drop { $0 == "_" } == other.drop { $0 == "_" }
  }

  private static let foldedMax = 4

  private static func joined(_ names: [String]) -> String {
    let shown = names.prefix(foldedMax)
    let rest = names.count > shown.count ? " or \(names.count - shown.count) more" : ""
    let suffix = "\(rest) (folded by the linker)"
    let room = (FunctionName.charactersMax - suffix.count) / shown.count - 4
    return shown.map { FunctionName.fitted($0, to: room) }.joined(separator: " or ") + suffix
  }

  /// Returns the frames of an async function that resumes at `address`, where a part of the function starts.
  func framesOfResumption(at address: FileAddress, module: String) -> [ResolvedFrame] {
    guard let function = symbol(at: address), function.range.start == address.value,
      let place = debug?.firstColumn(from: address.value, before: function.range.end)
    else { return frames(at: address, module: module) }
    var found = frames(at: FileAddress(place), module: module)
    for index in found.indices { found[index].address = .file(address) }
    return found
  }

  private static func location(_ call: SourceCall) -> SourceLocation? {
    guard let file = call.file, call.line > 0, !file.hasSuffix("<compiler-generated>") else { return nil }
    return SourceLocation(file: file, line: Int(call.line), column: Int(call.column))
  }
}

extension ResolvedFrame {
  fileprivate mutating func take(_ name: NameCache.Name) {
    function = name.meaning.short
    fullName = name.meaning.full
    rawName = name.raw
    swiftModule = name.meaning.swiftModule
    sourceFunction = name.meaning.sourceFunction
    kind = name.meaning.kind
    isMerged = name.meaning.isMerged
  }
}
