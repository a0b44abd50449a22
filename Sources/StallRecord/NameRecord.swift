enum NameRecord {
  /// Maximum number of frames per address. Outermost frames are kept.
  private static let framesMax = 64

  /// Maximum size of a text in bytes, which limits the size of a record.
  private static let textBytesMax = 2048

  private enum Flag {
    static let inlined: UInt8 = 1
    static let function: UInt8 = 2
    static let start: UInt8 = 4
    static let location: UInt8 = 8
    static let merged: UInt8 = 16
    static let thunk: UInt8 = 32
    static let glue: UInt8 = 64
    static let runtime: UInt8 = 128
  }

  private enum Origin {
    static let unknown: UInt8 = 0
    static let undescribed: UInt8 = 1
    static let unit: UInt8 = 2
    static let swiftUnit: UInt8 = 3
  }

  static func write(_ address: RuntimeAddress, _ frames: [ResolvedFrame], to writer: inout ByteWriter) {
    let kept = frames.suffix(framesMax)
    writer.append(address.value)
    writer.append(UInt8(kept.count))
    for frame in kept {
      var flags: UInt8 = frame.isInlined ? Flag.inlined : 0
      if frame.function != nil { flags |= Flag.function }
      if frame.start != nil { flags |= Flag.start }
      if frame.location != nil { flags |= Flag.location }
      if frame.isMerged { flags |= Flag.merged }
      if frame.kind == .thunk { flags |= Flag.thunk }
      if frame.kind == .glue { flags |= Flag.glue }
      if case .runtime = frame.address { flags |= Flag.runtime }
      writer.append(flags)
      for text in [frame.function, frame.fullName, frame.rawName, frame.swiftModule, frame.module] {
        writer.append(cut(text ?? ""))
      }
      writer.append(frame.address.value)
      writer.append(frame.start?.value ?? 0)
      writer.append(cut(frame.location?.file ?? ""))
      writer.append(UInt32(clamping: frame.location?.line ?? 0))
      writer.append(UInt32(clamping: frame.location?.column ?? 0))
      let (code, texts) = coded(frame.missing)
      writer.append(code)
      writer.append(cut(texts.0))
      writer.append(cut(texts.1))
    }
    for frame in kept {
      switch frame.origin {
      case .unknown: writer.append(Origin.unknown)
      case .undescribed: writer.append(Origin.undescribed)
      case .unit(let unit):
        writer.append(unit.swiftModule == nil ? Origin.unit : Origin.swiftUnit)
        writer.append(cut(unit.directory))
        writer.append(cut(unit.file))
        if let module = unit.swiftModule { writer.append(cut(module)) }
      }
    }
    for frame in kept { writer.append(cut(frame.sourceFunction ?? "")) }
    for frame in kept {
      writer.append(frame.called?.start.value ?? 0)
      guard let called = frame.called else { continue }
      for text in [called.function, called.fullName, called.rawName, called.swiftModule, called.sourceFunction] {
        writer.append(cut(text ?? ""))
      }
    }
  }

  static func read(_ reader: inout ByteReader) throws -> (address: RuntimeAddress, frames: [ResolvedFrame]) {
    let address = RuntimeAddress(try reader.number())
    let count: UInt8 = try reader.number()
    guard count > 0 else { throw ShortRecordError() }
    var frames: [ResolvedFrame] = []
    for _ in 0..<count { frames.append(try readFrame(&reader)) }
    for index in frames.indices { frames[index].origin = try readOrigin(&reader) }
    for index in frames.indices { frames[index].sourceFunction = try reader.knownText() }
    for index in frames.indices { frames[index].called = try readCalled(&reader) }
    return (address, frames)
  }

  private static func readOrigin(_ reader: inout ByteReader) throws -> CodeOrigin {
    let code: UInt8 = try reader.number()
    switch code {
    case Origin.undescribed: return .undescribed
    case Origin.unit, Origin.swiftUnit:
      var unit = CompilationUnit(directory: try reader.text(), file: try reader.text())
      if code == Origin.swiftUnit { unit.swiftModule = try reader.text() }
      return .unit(unit)
    default: return .unknown
    }
  }

  private static func readFrame(_ reader: inout ByteReader) throws -> ResolvedFrame {
    let flags: UInt8 = try reader.number()
    let (function, full, raw) = (try reader.text(), try reader.knownText(), try reader.knownText())
    let (swiftModule, module) = (try reader.knownText(), try reader.text())
    let (address, start): (UInt64, UInt64) = (try reader.number(), try reader.number())
    let file = try reader.text()
    let (line, column): (UInt32, UInt32) = (try reader.number(), try reader.number())
    let missing = reason(try reader.number(), try reader.text(), try reader.text())
    return ResolvedFrame(
      function: flags & Flag.function != 0 ? function : nil,
      fullName: full,
      rawName: raw,
      swiftModule: swiftModule,
      kind: flags & Flag.thunk != 0 ? .thunk : flags & Flag.glue != 0 ? .glue : .function,
      isMerged: flags & Flag.merged != 0,
      module: module,
      start: flags & Flag.start != 0 ? FileAddress(start) : nil,
      address: flags & Flag.runtime != 0 ? .runtime(RuntimeAddress(address)) : .file(FileAddress(address)),
      location: flags & Flag.location != 0 ? SourceLocation(file: file, line: Int(line), column: Int(column)) : nil,
      isInlined: flags & Flag.inlined != 0,
      missing: missing
    )
  }

  private static func readCalled(_ reader: inout ByteReader) throws -> CalledFunction? {
    let start: UInt64 = try reader.number()
    guard start != 0 else { return nil }
    return CalledFunction(
      function: try reader.text(),
      fullName: try reader.text(),
      rawName: try reader.text(),
      swiftModule: try reader.knownText(),
      sourceFunction: try reader.knownText(),
      start: FileAddress(start)
    )
  }

  private static func cut(_ text: String) -> String {
    guard text.utf8.count > textBytesMax else { return text }
    return String(decoding: text.utf8.prefix(textBytesMax), as: UTF8.self)
  }

  private static func coded(_ reason: MissingNameReason?) -> (UInt8, (String, String)) {
    switch reason {
    case nil: (0, ("", ""))
    case .notMapped: (1, ("", ""))
    case .noFile: (2, ("", ""))
    case .unreadableFile(let why): (3, (why, ""))
    case .changedFile(let expected, let found): (4, (expected, found))
    case .unverifiable: (5, ("", ""))
    case .noSymbols: (6, ("", ""))
    case .noSymbolHere: (7, ("", ""))
    }
  }

  private static func reason(_ code: UInt8, _ first: String, _ second: String) -> MissingNameReason? {
    switch code {
    case 0: nil
    case 1: .notMapped
    case 2: .noFile
    case 3: .unreadableFile(first)
    case 4: .changedFile(expected: first, found: second)
    case 5: .unverifiable
    case 6: .noSymbols
    // Includes unknown reasons, which also mean that there is no name.
    default: .noSymbolHere
    }
  }
}
