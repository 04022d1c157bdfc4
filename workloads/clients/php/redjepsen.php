<?php
// Does everything that docs/client-protocol.md asks of a client, except the lock itself. It needs no packages, and PHP
// 8.1.
//
//     Redjepsen\serve('my lock', function (Redjepsen\Settings $settings): callable {
//         …
//         return fn (Redjepsen\Operation $operation): ?Redjepsen\Held => …;
//     });
//
// The inner function acquires the lock; null, or an exception, means that it was not acquired. An Error of PHP itself
// is a mistake in the adapter, and not an answer of the library. Times are in seconds unless their names say otherwise.
// Counters and lists are missing here; the Python package has them.

declare(strict_types=1);

namespace Redjepsen;

const PROTOCOLS = [1, 2]; // of version 2, it can only lock for reading: a PHP program does one thing at a time, without a loop
const LIMIT = 2.0; // for a request to the resource, which is not under test
const START_LIMIT = 20.0; // a client may start in the middle of a fault
const DOUBT_LIMIT = 60.0; // how long a holder waits until its write cannot arrive any more: longer than a fault lasts
const AGAIN = 0.02;
const WARM_UP_LIMIT = 2.0; // to acquire a lock for the first time
const EXTEND = 'extend'; // the flag that holds a lock for a TTL longer, and extends it meanwhile
const EXTEND_AFTER = 0.6; // of the TTL

// KEYS: the key, the key of its highest token. ARGV: the writer's token, the new text.
const SET_WITH_TOKEN = <<<'LUA'
    if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
    redis.call('set', KEYS[2], ARGV[1])
    redis.call('set', KEYS[1], ARGV[2])
    return 1
    LUA;

/** The controller sent `bye`, or is gone. */
final class Closed extends \Exception {}

/** The library cannot do what the workload asks for; the run stops with this text. */
final class Unsuitable extends \Exception {}

/** The resource replied with an error: nothing was done. */
final class Refused extends \Exception {}

/** No answer came. If the connection existed before, it is unknown whether the request was carried out. */
final class Broken extends \Exception {}

/** The lock to acquire. */
final class Settings
{
    /**
     * @param string[] $nodes `redis://` URLs of independent nodes
     * @param float $nodeTimeout time limit of a request to one node
     * @param float[] $retryDelay the shortest and the longest wait between two attempts
     * @param string[] $flags the options of the adapter that were given on its command line, without dashes
     * @param int $permits how many clients may hold a lock at once: more than one for a semaphore
     */
    public function __construct(
        public readonly int $ttlMs,
        public readonly array $nodes,
        public readonly float $nodeTimeout,
        public readonly array $retryDelay,
        public readonly array $flags,
        public readonly int $permits = 1,
    ) {}

    public function ttl(): float
    {
        return $this->ttlMs / 1000;
    }

    /** The TTL for a library that counts in whole seconds. */
    public function wholeSeconds(): int
    {
        if ($this->ttlMs % 1000 !== 0 || $this->ttlMs === 0) {
            throw new Unsuitable("this library counts in whole seconds, and the TTL is $this->ttlMs ms: take --ttl 1s");
        }
        return intdiv($this->ttlMs, 1000);
    }

    /** The only node. */
    public function node(): string
    {
        if (count($this->nodes) !== 1) {
            throw new Unsuitable('this library locks on one node: take --nodes 1');
        }
        return $this->nodes[0];
    }

    /** Waits for about the recommended time before the next attempt. */
    public function pause(): void
    {
        [$low, $high] = $this->retryDelay;
        sleepFor($low + ($high - $low) * mt_rand() / mt_getrandmax());
    }
}

/** A lock that the library granted, with the functions that the library has for it. */
final class Held
{
    /**
     * @param \Closure $release releases the lock
     * @param ?float $validityMs how long it is valid from now; only if the library says it
     * @param ?int $token the fencing token, if the library has one
     * @param ?\Closure $extend renews it: false, or an exception, means that the lock is lost; a number is its validity
     * in ms
     * @param ?\Closure $check called before the write: false, or an exception, means that the lock is lost
     * @param ?\Closure $owned whether the library says that this client has the lock: asked as often as the workload says
     *     (`check_every`), and then before the write too; false means that it is lost, an exception is no answer
     */
    public function __construct(
        public readonly \Closure $release,
        public readonly ?float $validityMs = null,
        public readonly ?int $token = null,
        public readonly ?\Closure $extend = null,
        public readonly ?\Closure $check = null,
        public readonly ?\Closure $owned = null,
    ) {}
}

/** The link to the controller. */
final class Control
{
    public function say(array $message): void
    {
        $line = json_encode($message, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES) . "\n";
        if (@fwrite(STDOUT, $line) !== strlen($line)) {
            throw new Closed();
        }
    }

    /** Whether a message comes within this many seconds. */
    public function hasOneWithin(float $seconds): bool
    {
        [$read, $none] = [[STDIN], null];
        return stream_select($read, $none, $none, 0, (int) (max(0.0, $seconds) * 1e6)) !== 0;
    }

    public function next(): array
    {
        $line = fgets(STDIN);
        $message = $line === false ? ['type' => 'bye'] : json_decode($line, true, flags: JSON_THROW_ON_ERROR);
        if ($message['type'] === 'bye') {
            throw new Closed();
        }
        return $message;
    }
}

/** A requested operation, with its reports to the controller. */
final class Operation
{
    /** The name of the lock, how long to try to acquire it, and how long to think. */
    public readonly string $key;
    public readonly float $within;
    public readonly float $hold;
    /** How often a holder asks its library whether it holds the lock. */
    public readonly ?float $checkEvery;
    /** The delay between the release and a second release; 0 for no second release. */
    public readonly float $releaseAgain;
    /** Why the lock is lost; null if no loss was reported. */
    public ?string $lost = null;
    /** Does due work while the operation waits; returns in how many seconds more work is due, or null for none. */
    public ?\Closure $meanwhile = null;
    private bool $acquired = false;

    public function __construct(public readonly array $invoke, private readonly ?Control $control)
    {
        $this->key = 'lock:' . $invoke['key'];
        $this->within = ($invoke['acquire_timeout_ms'] ?? 0) / 1000;
        $this->hold = ($invoke['hold_ms'] ?? 0) / 1000;
        $this->releaseAgain = ($invoke['release_again_ms'] ?? 0) / 1000;
        $this->checkEvery = empty($invoke['check_every_ms']) ? null : $invoke['check_every_ms'] / 1000;
    }

    /** Whether to acquire the lock for reading, together with other readers. */
    public function shared(): bool
    {
        return ($this->invoke['f'] ?? '') === 'shared';
    }

    /**
     * Reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does it
     * continue.
     */
    public function phase(string $name, array $facts = []): void
    {
        $this->report($name, $facts);
        if (!in_array($name, $this->invoke['breakpoints'] ?? [], true)) {
            return;
        }
        do {
            while ($this->meanwhile !== null && ($seconds = ($this->meanwhile)()) !== null) {
                if ($this->control->hasOneWithin($seconds)) {
                    break;
                }
            }
            $message = $this->control->next();
            if ($message['type'] !== 'go') {
                throw new \UnexpectedValueException("{$message['type']} while an operation waits at $name");
            }
        } while ([$message['id'], $message['phase']] !== [$this->invoke['id'], $name]);
        $this->report($name, $facts);
    }

    /** Reports that the lock was renewed, with its validity in milliseconds if the library gives it. */
    public function extended(?float $validityMs = null): void
    {
        $this->report('extended', $validityMs === null ? [] : ['validity_ms' => milliseconds($validityMs)]);
    }

    /** Reports that the library, asked at this time of the monotonic clock, says that the client holds the lock. */
    public function owned(int $askedNs): void
    {
        $this->report('owned', ['mono_ns' => $askedNs]);
    }

    /** Reports that the library knows that the lock is lost. Only the first reason counts. */
    public function lost(string $reason): void
    {
        if ($this->lost === null) {
            $this->lost = $reason;
            if ($this->acquired) {
                $this->report('lost', ['text' => $reason]);
            }
        }
    }

    private function report(string $name, array $facts): void
    {
        $this->acquired = $this->acquired || $name === 'acquired';
        $told = ['type' => 'phase', 'id' => $this->invoke['id'], 'phase' => $name];
        $this->control?->say($told + $facts + ['mono_ns' => hrtime(true)]);
    }
}

/**
 * The resource that the lock protects: texts in a separate Redis. After an error the connection is closed and never
 * used again: a late reply would look like the reply to the next request.
 */
final class Register
{
    /** @var ?resource */
    private $socket = null;
    private ?string $number = null; // the server's id of the connection

    public function __construct(private readonly string $url) {}

    /** Connects if there is no connection. An exception means that nothing was sent. */
    public function connect(): void
    {
        if ($this->socket !== null) {
            return;
        }
        $place = parse_url($this->url);
        $at = "tcp://{$place['host']}:" . ($place['port'] ?? 6379);
        $context = stream_context_create(['socket' => ['tcp_nodelay' => true]]);
        $socket = @stream_socket_client($at, $code, $text, LIMIT, STREAM_CLIENT_CONNECT, $context);
        if ($socket === false) {
            throw new Broken("$at: $text");
        }
        stream_set_timeout($socket, (int) LIMIT);
        $this->socket = $socket;
        $this->number = (string) $this->ask('CLIENT', 'ID');
    }

    /** Sends one request and returns its answer. Numbers are returned as texts; null is a key that does not exist. */
    public function ask(string ...$words): ?string
    {
        $this->connect();
        $request = '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $request .= '$' . strlen($word) . "\r\n$word\r\n";
        }
        try {
            if (@fwrite($this->socket, $request) !== strlen($request)) {
                throw new Broken('the server closed the connection');
            }
            return $this->reply();
        } catch (Broken $error) {
            fclose($this->socket);
            $this->socket = null;
            throw $error;
        }
    }

    /** Whether nothing that was sent on the broken connection can arrive any more: the server has closed it. */
    public function cutOff(\Closure $meanwhile): bool
    {
        $number = $this->number;
        for ($deadline = now() + DOUBT_LIMIT; now() < $deadline; $meanwhile(AGAIN)) {
            try {
                $this->ask('CLIENT', 'KILL', 'ID', (string) $number);
                return true;
            } catch (Refused) {
                return true;
            } catch (Broken) {
            }
        }
        return false;
    }

    private function reply(): ?string
    {
        $line = $this->line();
        $rest = substr($line, 1);
        switch ($line[0]) {
            case '-':
                throw new Refused($rest);
            case ':':
            case '+':
                return $rest;
            case '$':
                if ((int) $rest < 0) {
                    return null;
                }
                $size = (int) $rest + 2;
                $text = stream_get_contents($this->socket, $size);
                if ($text === false || strlen($text) < $size) {
                    throw new Broken($this->why());
                }
                return substr($text, 0, -2);
            default:
                throw new Broken("the server replied $line");
        }
    }

    private function line(): string
    {
        $line = fgets($this->socket);
        if ($line === false || !str_ends_with($line, "\r\n") || strlen($line) < 3) {
            throw new Broken($this->why());
        }
        return substr($line, 0, -2);
    }

    private function why(): string
    {
        return stream_get_meta_data($this->socket)['timed_out'] ? 'timeout' : 'the server closed the connection';
    }
}

/** A lock in use. */
final class Holder
{
    private readonly float $extra;
    private readonly ?float $every;
    private float $due;
    private readonly ?float $askEvery;
    /** The library's error when it did not release the lock. */
    private string $refusal = '';
    private float $askDue;

    public function __construct(Settings $settings, private readonly Operation $operation, public readonly Held $held)
    {
        $extends = in_array(EXTEND, $settings->flags, true);
        $this->extra = $extends ? $settings->ttl() : 0.0;
        $this->every = $extends ? $settings->ttl() * EXTEND_AFTER : null;
        $this->due = now() + ($this->every ?? 0.0);
        $this->askEvery = $held->owned === null ? null : $operation->checkEvery;
        $this->askDue = now() + ($this->askEvery ?? 0.0);
        $operation->meanwhile = $this->askIfDue(...);
    }

    /** Waits for the operation's hold time. */
    public function think(): void
    {
        $this->keep($this->operation->hold + $this->extra);
    }

    /** Waits, and extends the lock whenever this is due. */
    public function keep(float $seconds): void
    {
        $until = now() + $seconds;
        while ($this->operation->lost === null) {
            $extendDue = $this->every === null ? INF : $this->due;
            $askDue = $this->askEvery === null ? INF : $this->askDue;
            if (min($extendDue, $askDue) >= $until) {
                break;
            }
            sleepFor(min($extendDue, $askDue) - now());
            if ($extendDue <= $askDue) {
                $this->extend();
            } else {
                $this->askIfDue();
            }
        }
        sleepFor($until - now());
    }

    private function extend(): void
    {
        $validity = $this->ask($this->held->extend, 'it could not be extended');
        if ($this->operation->lost === null) {
            $this->operation->extended(is_numeric($validity) ? (float) $validity : null);
        }
        $this->due = now() + $this->every;
    }

    /**
     * Asks the library whether the client holds the lock, if this is due. Returns in how many seconds it is due again.
     */
    private function askIfDue(): ?float
    {
        if ($this->askEvery === null || $this->operation->lost !== null) {
            return null;
        }
        if (now() >= $this->askDue) {
            $this->askOwned();
            $this->askDue = now() + $this->askEvery;
        }
        return $this->askDue - now();
    }

    private function askOwned(): void
    {
        $asked = hrtime(true);
        try {
            if (($this->held->owned)() === false) {
                $this->operation->lost('it is no longer owned');
            } else {
                $this->operation->owned($asked);
            }
        } catch (\Exception $error) {
            complain('owned', $error); // without an answer, the state is unknown
        }
    }

    /** The last check before the write. Returns why the lock is lost; null if it is not. */
    public function look(): ?string
    {
        if ($this->held->check !== null && $this->operation->lost === null) {
            $this->ask($this->held->check, 'it is no longer held');
        }
        if ($this->askEvery !== null && $this->operation->lost === null) {
            $this->askOwned();
        }
        return $this->operation->lost;
    }

    /** Releases the lock; returns facts about a second release. */
    public function release(): array
    {
        $this->operation->meanwhile = null; // from now on, the release reports the state
        $this->operation->phase('releasing');
        $isFree = $this->isReleased();
        if ($isFree) {
            $this->operation->phase('released');
        }
        if ($this->operation->releaseAgain > 0) {
            // As an error handler behind a `finally` does. The second call's error says nothing about a lock that was
            // already released.
            usleep((int) ($this->operation->releaseAgain * 1e6));
            if (!$this->isReleased()) {
                return ['text' => "released again: $this->refusal"];
            }
            if (!$isFree) {
                $this->operation->phase('released');
            }
        }
        return [];
    }

    private function isReleased(): bool
    {
        try {
            ($this->held->release)();
            return true;
        } catch (\Exception $error) {
            $this->refusal = described($error);
            complain('release', $error); // it is unknown whether the lock is free, so `released` is not reported
            return false;
        }
    }

    private function ask(\Closure $what, string $otherwise): mixed
    {
        try {
            $answer = $what();
        } catch (\Exception $error) {
            complain('the lock is lost', $error);
            $this->operation->lost(described($error));
            return null;
        }
        if ($answer === false) {
            $this->operation->lost($otherwise);
        }
        return $answer;
    }
}

final class Client
{
    private readonly Settings $settings;
    private readonly bool $fenced;
    private readonly ?Register $register;
    private \Closure $acquire;

    /** @param string[] $flags */
    public function __construct(array $hello, callable $connect, array $flags)
    {
        [$lock, $resource] = [$hello['lock'], $hello['resource']];
        if (!in_array($hello['protocol'], PROTOCOLS, true)) {
            throw new Unsuitable('this client speaks protocol ' . implode(' and ', PROTOCOLS) . ", not {$hello['protocol']}");
        }
        if (!in_array($resource['kind'], ['register', 'none'], true) || !in_array($resource['fencing'], ['none', 'token'], true)) {
            $wanted = "{$resource['kind']} {$resource['fencing']}";
            throw new Unsuitable("this client writes a register without fencing or with tokens, not $wanted");
        }
        if (isset($lock['group'])) {
            throw new Unsuitable('this client takes nodes that are independent, not a Sentinel group or a Redis Cluster');
        }
        $options = $lock['options'] ?? [];
        [$low, $high] = $options['retry_delay_ms'] ?? [10, 50];
        $limit = ($options['node_timeout_ms'] ?? $lock['ttl_ms']) / 1000;
        $this->settings = new Settings($lock['ttl_ms'], $lock['nodes'], $limit, [$low / 1000, $high / 1000], $flags, $options['permits'] ?? 1);
        $this->fenced = $resource['fencing'] === 'token';
        $this->register = $resource['kind'] === 'none' ? null : new Register($resource['url']);
        reached(fn () => $this->register?->connect());
        $this->acquire = \Closure::fromCallable(reached(fn () => $connect($this->settings)));
        $this->warmUp(($hello['key_prefix'] ?? '') . 'warm-up:' . ($hello['client'] ?? ''));
    }

    /** Performs one operation; returns its answer. */
    public function perform(array $invoke, Control $control): array
    {
        if ($invoke['f'] !== 'hold' && $this->register === null) {
            return failed('unsupported', $invoke['f']);
        }
        if ($invoke['f'] === 'read') {
            try {
                return ['type' => 'ok', 'old' => $this->register->ask('GET', $invoke['key'])];
            } catch (Broken|Refused $error) {
                return failed('unavailable', described($error));
            }
        }
        if (!in_array($invoke['f'], ['rmw', 'shared', 'hold'], true)) {
            return failed('unsupported', $invoke['f']);
        }
        $operation = new Operation($invoke, $control);
        $operation->phase('acquiring');
        try {
            $held = ($this->acquire)($operation);
        } catch (\Exception $error) {
            return failed('not-acquired', described($error));
        } catch (\Error $mistake) {
            complain('acquire', $mistake);
            return ['type' => 'info', 'error' => 'crash', 'text' => described($mistake)];
        }
        if ($held === null) {
            return failed('not-acquired', '');
        }
        $facts = $held->validityMs === null ? [] : ['validity_ms' => milliseconds($held->validityMs)];
        $holder = new Holder($this->settings, $operation, $held);
        $operation->phase('acquired', $held->token === null ? $facts : $facts + ['token' => $held->token]);
        [$answer, $settled] = $this->work($operation, $holder);
        $more = $settled ? $holder->release() : [];
        return $answer['type'] === 'ok' ? $answer + $more : $answer;
    }

    /** Does the work under the lock. Returns the answer, and whether the lock may be released afterwards. */
    private function work(Operation $operation, Holder $holder): array
    {
        if ($operation->invoke['f'] === 'hold') {
            $holder->think();
            return [['type' => 'ok'], true];
        }
        [$key, $new] = [$operation->invoke['key'], $operation->invoke['value'] ?? ''];
        try {
            $old = $this->register->ask('GET', $key);
        } catch (Broken|Refused $error) {
            return [failed('unavailable', described($error)), true];
        }
        $operation->phase('read', ['value' => $old]);
        $holder->think();
        $lost = $holder->look();
        if ($lost !== null) {
            return [failed('lock-lost', $lost), true];
        }
        if ($operation->shared()) {
            return [['type' => 'ok', 'old' => $old], true];
        }
        $operation->phase('before-write');
        try {
            $this->register->connect();
        } catch (Broken|Refused $error) {
            return [failed('unavailable', described($error)), true];
        }
        try {
            $taken = $this->write($key, $new, $holder->held->token);
        } catch (Refused $error) {
            return [failed('unavailable', described($error)), true];
        } catch (Broken $error) {
            // It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any
            // more.
            $word = $error->getMessage() === 'timeout' ? 'timeout' : 'connection-lost';
            $settled = $this->register->cutOff($holder->keep(...));
            return [['type' => 'info', 'error' => $word, 'text' => described($error)], $settled];
        }
        if (!$taken) {
            return [failed('fenced', 'the resource has seen a later holder\'s token'), true];
        }
        $operation->phase('written');
        return [['type' => 'ok', 'old' => $old, 'new' => $new], true];
    }

    /** Writes the text; false if the resource refused it. */
    private function write(string $key, string $new, ?int $token): bool
    {
        if (!$this->fenced) {
            $this->register->ask('SET', $key, $new);
            return true;
        }
        if ($token === null) {
            throw new Refused('the library gave no fencing token');
        }
        return $this->register->ask('EVAL', SET_WITH_TOKEN, '2', $key, "$key:highest-token", (string) $token, $new) === '1';
    }

    /**
     * Acquires a lock of its own and releases it. The first lock loads code and connects, which must not count towards
     * an operation. A node may be down just now, so a failure does not prevent the start.
     */
    private function warmUp(string $key): void
    {
        try {
            $own = ['id' => 0, 'key' => $key, 'acquire_timeout_ms' => WARM_UP_LIMIT * 1000];
            $held = ($this->acquire)(new Operation($own, null));
            if ($held !== null) {
                ($held->release)();
            }
        } catch (\Exception $error) {
            complain('warm-up', $error);
        }
    }
}

/**
 * Runs the client on standard input and output until the controller says `bye`.
 *
 * @param string[] $flags the options that the adapter has on its command line, without dashes; with `extend`, which takes
 *     `Held::$extend`, a lock is held for longer than its TTL and extended meanwhile
 * @param bool $once whether `Held::$release` can be called only once, as a Fiber can run to its end only once
 * @param bool $shared whether it can also acquire the lock for reading, if the operation says so (`Operation::shared`)
 */
function serve(string $name, callable $connect, array $flags = [], bool $shared = false, bool $once = false): void
{
    ini_set('display_errors', 'stderr');
    // The library's output is not a message.
    ob_start(function (string $printed): string {
        fwrite(STDERR, $printed);
        return '';
    }, 1);
    $control = new Control();
    try {
        $hello = $control->next();
        try {
            $given = given($flags, array_slice($_SERVER['argv'], 1));
            $client = new Client($hello, $connect, $given);
        } catch (\Throwable $error) {
            complain('start', $error);
            $control->say(['type' => 'failed', 'text' => $error->getMessage()]);
            return;
        }
        $variant = $given ? ' (' . implode(', ', $given) . ')' : '';
        $can = $hello['protocol'] > 1 ? [...($once ? [] : ['release-again']), ...($shared ? ['shared'] : [])] : [];
        $control->say(['type' => 'ready', 'protocol' => $hello['protocol'], 'name' => $name . $variant, 'capabilities' => $can]);
        while (true) {
            $message = $control->next();
            if ($message['type'] === 'invoke') {
                $control->say($client->perform($message, $control) + ['id' => $message['id']]);
            } elseif ($message['type'] !== 'go') { // a late `go` is for an operation that is over
                throw new \UnexpectedValueException("{$message['type']} while no operation is in progress");
            }
        }
    } catch (Closed) {
    }
}

/** The version of a Debian package that `install.sh` has unpacked, without Debian's additions. */
function version(string $package): string
{
    $installed = file_get_contents(getenv('PHP_PACKAGES') . "/$package.version");
    return preg_replace('/^\d+:|[+-].*$/', '', trim((string) $installed));
}

/**
 * @param string[] $known
 * @param string[] $arguments
 * @return string[]
 */
function given(array $known, array $arguments): array
{
    foreach ($arguments as $argument) {
        if (!in_array($argument, array_map(fn ($flag) => "--$flag", $known), true)) {
            throw new Unsuitable("unknown option $argument of the adapter (the flags of `serve` name them)");
        }
    }
    return array_map(fn ($argument) => substr($argument, 2), $arguments);
}

/** The result of the attempt, which is repeated for a while: a client may start in the middle of a fault. */
function reached(callable $attempt): mixed
{
    for ($deadline = now() + START_LIMIT; ; sleepFor(AGAIN)) {
        try {
            return $attempt();
        } catch (Unsuitable $error) {
            throw $error;
        } catch (\Exception $error) {
            if (now() > $deadline) {
                throw $error;
            }
        }
    }
}

function failed(string $error, string $text): array
{
    return ['type' => 'fail', 'error' => $error, 'text' => $text];
}

function described(\Throwable $error): string
{
    return get_class($error) . ': ' . substr(trim($error->getMessage()), 0, 1000);
}

function complain(string $where, \Throwable $error): void
{
    fwrite(STDERR, "$where: $error\n");
}

/** In the protocol's form: whole milliseconds, rounded down. */
function milliseconds(float $value): int
{
    return max(0, (int) $value);
}

function now(): float
{
    return hrtime(true) / 1e9;
}

function sleepFor(float $seconds): void
{
    if ($seconds > 0) {
        usleep((int) ($seconds * 1e6));
    }
}
