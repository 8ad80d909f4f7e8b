import Foundation
public import ChaparCore

extension OneSignalBackend {
    /// Reads the newest message in one call, which proves the key and the app id.
    public func diagnose() async -> [Diagnosis] {
        do throws(PushError) {
            _ = try await messages.list(limit: 1)
            return [Diagnosis("account", .ok, "The key and the app are good.")]
        } catch {
            let fix =
                error.code == .credentialsRefused
                ? "Check api_key and app_id, and the key's IP allowlist." : "Check the network path and base_url."
            return [Diagnosis("account", .failure, error.message, fix: fix)]
        }
    }
}
