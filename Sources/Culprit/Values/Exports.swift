// Makes `import Culprit` sufficient for the types of reports, even with MemberImportVisibility.
@_exported import CulpritReports
