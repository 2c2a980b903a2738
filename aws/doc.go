// Package aws has retry strategies for AWS: the modes that its SDKs use since
// 2026, presets that do what one older SDK does, and the settings that a machine
// is configured with.
//
//	t := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return aws.Standard2026() }}
//
// # Modes and presets
//
// The modes (Standard2026, Adaptive2026 and theirs for DynamoDB) are general: a
// request that is not idempotent is repeated only if it provably was not
// processed. The presets (AdaptiveV1, Botocore, JavaV1, JavaScriptV2) repeat every
// request, as the SDKs do. docs/modes.md has all their numbers and rules.
// retrip.Standard, retrip.Legacy and retrip.Adaptive are the modes that the SDK
// for Java had before 2026.
//
// # The environment and the config files
//
// Config.Load makes a strategy of what a machine is configured with for the AWS
// SDKs: the environment and the shared config files. Each host gets a clone of it,
// which has a quota of its own:
//
//	configured, err := aws.Config{}.Load()
//	t := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return configured.Clone() }}
//
// Two settings are read, each from the first of these places that has it:
//
//	                 code                 environment        profile        otherwise
//	mode             Config.Mode          AWS_RETRY_MODE     retry_mode     standard
//	attempts         Config.MaxAttempts   AWS_MAX_ATTEMPTS   max_attempts   the mode's own
//
// The profile is Config.Profile, else AWS_PROFILE, else AWS_DEFAULT_PROFILE,
// else the default one. It is looked up in the config file (Config.ConfigFile,
// else AWS_CONFIG_FILE, else ~/.aws/config) as [profile name] or [default],
// and in the credentials file (Config.CredentialsFile, else
// AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials) as [name], whose
// settings win. No profile takes settings from another. A file that does not
// exist counts as empty. A file that may not be read is an error, and so is a
// profile that was named and is in neither file. Credentials are not looked at.
//
// A mode is "standard", "legacy" or "adaptive", in lower case: retrip.Standard,
// retrip.Legacy, retrip.Adaptive. See Config.Use2026 for newer parameters.
//
// # Where the SDKs differ
//
// The rules above are those of aws-sdk-go-v2 (config v1.33.14: env_config.go,
// shared_config.go, internal/ini) and botocore (1.43: configprovider.py,
// configloader.py, args.py, and Python's configparser), and what they agree on
// is read as they read it. Where they differ, this package takes the reading
// that cannot mean something else than its author meant, and rather an error
// than a guess:
//
//	case                             aws-sdk-go-v2       botocore           here, and why
//	mode legacy                      error               legacy             legacy: the mode exists here
//	attempts 0                       not set             error              error: 0 attempts is no wish one can grant
//	attempts below 0                 unlimited           error              error: retries must end
//	attempts over the int range      error               taken              error
//	attempts 010 in a file           8                   10                 10: as in the environment, and as people read it
//	attempts 0x5 in a file           5                   error              error: as in the environment
//	attempts 1_0 in the environment  error               10                 10: as both read it in a file
//	blanks around a variable         error               cut off attempts   error: as both do for the mode
//	empty variable                   not set             error              not set: how shells and containers unset one
//	bad value that is overridden     error               not looked at      not looked at: it has no effect
//	AWS_PROFILE, AWS_DEFAULT_PROFILE the first wins      the second wins    the first wins: the name all SDKs know
//	AWS_DEFAULT_PROFILE not found    ignored             error              error: as for AWS_PROFILE
//	[profile default], [default]     the first wins      the later wins     the first wins, wherever it stands
//	[profile "dev"], 'dev'           part of the name    quotes cut off     quotes cut off: the AWS CLI writes them around blanks
//	that and [profile dev]           two profiles        the later wins     merged, like any section given twice
//	[profile my dev]                 a profile           not a profile      a profile: it can mean nothing else
//	[ default ]                      a profile           not a profile      a profile: the same
//	[default] text                   line ignored        text ignored       text ignored: else settings go to another profile
//	[profile a#b]                    line ignored        a profile          a profile
//	[]                               a section           error              a section, of no profile
//	indented [section]               a section           a continuation     a section: else settings go to another profile
//	section given twice              merged              error              merged
//	setting given twice              the later wins      error              error if it is one of the two
//	comment after a value            cut off             part of the value  cut off: no mode or number has one in it
//	quoted value                     quotes cut off      part of the value  quotes cut off: it can mean nothing else
//	line indented deeper             a setting, if the   a continuation     a continuation: one of the two settings
//	                                 one above has value                    can't have any, and no other's is looked at
//	line that is no setting          ignored             error              error: it may be a misspelt one
//	setting before any section       ignored             error              error: the same
//	section header without ]         ignored             error              error: else settings go to another profile
//	byte order mark                  first section lost  error              error: the SDKs on the machine can't read it either
//	not UTF-8                        taken               error              error: likely UTF-16, of which nothing would be read
//	CR alone                         part of the line    ends the line      ends the line: as editors show it
//	directory for a file             error               counts as missing  error: it can't be meant
//	file that may not be read        counts as missing   counts as missing  error: settings must not silently not count
//	~ or $VAR in a variable's path   taken literally     expanded           taken literally: a shell has expanded it already
//
// Our own: a file of more than 8 MiB is an error.
package aws
