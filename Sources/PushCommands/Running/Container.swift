import Foundation

/// Whether the program runs in a container, whose files end with it and whose ports others forward.
struct Container {
    /// What shows it; nil when nothing does.
    let sign: String?

    /// Looks at what engines leave: a variable or a file.
    ///
    /// `CHAPAR_CONTAINER` says it for certain, `1` or `0`.
    init(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        hasFile: (String) -> Bool = FileManager.default.fileExists
    ) {
        switch environment["CHAPAR_CONTAINER"] {
        case "0"?: sign = nil
        case "1"?: sign = "CHAPAR_CONTAINER"
        default:
            sign =
                ["KUBERNETES_SERVICE_HOST", "container"].first { environment[$0].map { !$0.isEmpty } ?? false }
                ?? ["/.dockerenv", "/run/.containerenv"].first(where: hasFile)
        }
    }
}
