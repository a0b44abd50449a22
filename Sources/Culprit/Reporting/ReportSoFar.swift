import CulpritReports
import CulpritStallRecord

extension StallEvent {
  init(_ recording: Recording, _ stall: Stall, isHang: Bool, _ settings: ReportSettings) {
    self.init(stall, of: recording.process, isHang: isHang) {
      guard let stall = recording.stalls.first else { return nil }
      var recording = recording
      recording.modules = ModuleList.covering(recording.stacks)
      return settings.report(of: stall, in: recording, settings.symbolizer(of: recording))
    }
  }
}
