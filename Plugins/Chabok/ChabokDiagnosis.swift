import Foundation
public import ChaparCore

extension ChabokBackend {
    /// Reads the app's tags: a cheap call that proves the address and the access token.
    public func diagnose() async -> [Diagnosis] {
        do throws(PushError) {
            _ = try await installations.tags()
            return [Diagnosis("account", .ok, "The address and the access token are good.")]
        } catch {
            let fix =
                error.code == .credentialsRefused
                ? "Check access_token and environment." : "Check the network path, app_id and base_url."
            return [Diagnosis("account", .failure, error.message, fix: fix)]
        }
    }
}
