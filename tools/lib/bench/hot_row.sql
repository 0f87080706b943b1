UPDATE bench.one SET v = v + 1 WHERE id = 1
